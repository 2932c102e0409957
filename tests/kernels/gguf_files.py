"""Small GGUF files for tests: a Llama with a tokenizer of bytes, written by the package `gguf`."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

HIDDEN, INNER, HEADS, KV_HEADS, VOCABULARY = 256, 512, 4, 2, 300
LAYER = {
    "attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN // 2, HIDDEN), "attn_v": (HIDDEN // 2, HIDDEN),
    "attn_output": (HIDDEN, HIDDEN), "ffn_gate": (INNER, HIDDEN), "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}  # fmt: skip
NORMS = {"blk.0.attn_norm": (HIDDEN,), "blk.0.ffn_norm": (HIDDEN,), "output_norm": (HIDDEN,)}
SHAPES = {"token_embd": (VOCABULARY, HIDDEN), **{f"blk.0.{name}": shape for name, shape in LAYER.items()}}
END, BEGIN, TOOL = 256, 257, 260
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_LETTERS = [*range(33, 127), *range(161, 173), *range(174, 256)]


def byte_names() -> list[str]:
    """The characters that byte-level BPE has for the bytes 0 to 255."""
    others = iter(range(256, 512))
    return [chr(byte if byte in _LETTERS else next(others)) for byte in range(256)]


def random_blocks(shape: tuple[int, ...], kind: Type, seed: int = 1) -> np.ndarray:
    """Random bytes of a tensor of this type, with scales that are small numbers."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    draw = np.random.default_rng(seed)
    blocks = draw.integers(0, 256, (int(np.prod(shape)) // weights, size), dtype=np.uint8)
    if kind == Type.MXFP4:
        blocks[:, 0] = blocks[:, 0] % 16 + 112  # powers of two from 2^-15 to 1
    for at in SCALES[kind]:
        scales = draw.normal(0, 0.02, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(*shape[:-1], -1)


SCALES: dict[Type, tuple[int, ...]] = {
    Type.MXFP4: (),
    Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q8_0: (0,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,),
}  # fmt: skip
"""Where the 16-bit scales of a block lie."""


def write_gguf(
    path: Path, kind: Type = Type.Q8_0, tied: bool = True, arch: str = "llama", factors: Any = None, **metadata: Any
) -> Path:
    """A model of one layer."""
    writer = gguf.GGUFWriter(path, arch)
    entries: dict[str, Any] = {
        "context_length": 64, "block_count": 1, "feed_forward_length": INNER, "embedding_length": HIDDEN,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "rope.dimension_count": HIDDEN // HEADS,
    }  # fmt: skip
    entries = {f"{arch}.{key}": value for key, value in entries.items()}
    entries |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
    entries |= {f"tokenizer.ggml.{name}_token_id": number for name, number in (("bos", BEGIN), ("eos", END))}
    given = {key.replace("__", "."): value for key, value in metadata.items()}
    for key, value in (entries | given).items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_add_bos_token(True)
    writer.add_token_list([*byte_names(), "<end>", "<begin>", "12", "ab", "<tool>"])
    writer.add_token_types([1] * 256 + [3, 3, 1, 1, 4])
    writer.add_token_merges(["1 2", "a b"])
    writer.add_chat_template(TEMPLATE)
    for seed, (name, shape) in enumerate((SHAPES if tied else {**SHAPES, "output": SHAPES["token_embd"]}).items()):
        writer.add_tensor(f"{name}.weight", random_blocks(shape, kind, seed), raw_dtype=kind)
    for name, shape in NORMS.items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32))
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
