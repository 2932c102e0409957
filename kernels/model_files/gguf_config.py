"""The model that a GGUF file's metadata describes, as config.json has it, and its tensors by transformers' names."""

import ast
import math
import struct
from functools import cache
from pathlib import Path
from typing import Any

from kernels.model_files.architectures import mappings, transformers_folder
from kernels.model_files.config import value
from kernels.model_files.errors import ModelRefused
from kernels.model_files.families import FAMILIES
from kernels.model_files.gguf import GgufHeader
from kernels.model_files.headers import Tensor

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2", "gemma3": "gemma3_text"}
"""The architectures that are taken, and transformers' model type of each."""
TOKENIZERS = ("gpt2", "llama")
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPLITS: dict[str, tuple[str, ...]] = {
    "gpt-2": (_GPT2,),
    "smollm": (r"\p{N}", _GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), (rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}",)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), (rf"{_LETTERS}|\p{{N}}|{_REST}",)),
}
"""The published expressions that split text before byte-level BPE, by GGUF's names of them."""
ROTARY_FACTORS = "rope_freqs.weight"
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}
SCALE_OF_27B = {("gemma2", 46): 144, ("gemma3", 62): 168}
"""`query_pre_attn_scalar`, which GGUF does not store: of Gemma's largest models, by their layers. Others have 256."""
QUERY_SCALE = 256
LEAST_FACTOR, MAX_FACTOR = 0.999, 1e6
CLOSE = 1e-4
"""Relative difference of rotary factors in float32."""


def config_of(header: GgufHeader, file: str, path: Path) -> dict[str, Any]:
    """The model's config.json. `path` is where the content lies. Raises ModelRefused for an architecture that is not
    taken, and for metadata that contradict the tensors.
    """
    metadata = header.metadata
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        taken = ", ".join(ARCHITECTURES)
        shown = "".join(c for c in str(name)[:40] if c.isprintable())
        raise ModelRefused(file, "general.architecture", f"GGUF files of {shown!r} are not taken, only of {taken}")
    if metadata.get("split.count", 1) not in (0, 1):
        reason = "the file is one part of several; merge them with `llama-gguf-split --merge` first"
        raise ModelRefused(file, "split.count", reason)
    if metadata.get(f"{name}.expert_count"):
        raise ModelRefused(file, f"{name}.expert_count", "mixtures of experts are not taken as GGUF")
    model_type = ARCHITECTURES[name]
    architecture = mappings()["MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"][model_type]
    config: dict[str, Any] = {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16"}
    for key, field in _fields(name).items():
        if field and (number := metadata.get(key)) is not None:
            if not isinstance(number, (int, float)):
                raise ModelRefused(file, key, "must be one number")
            config[field] = number
    if (head_dim := metadata.get(f"{name}.attention.key_length")) is not None:
        config["head_dim"] = head_dim
    by_name = {tensor.name: tensor for tensor in header.tensors}
    embedding = by_name.get("token_embd.weight")
    if embedding is None:
        raise ModelRefused(file, "token_embd.weight", "the file lacks this tensor")
    config["vocab_size"] = embedding.shape[0]
    config["tie_word_embeddings"] = "output.weight" not in by_name
    if name == "llama" and "blk.0.attn_q.bias" in by_name:
        config["attention_bias"] = True
    if name.startswith("gemma"):
        layers = value(config, "layers") or 0
        config["query_pre_attn_scalar"] = SCALE_OF_27B.get((name, layers), QUERY_SCALE)
    if scaling := _rope_scaling(name, metadata, file):
        config["rope_scaling"] = scaling
    if ROTARY_FACTORS in by_name:
        config["rope_scaling"] = _llama3_scaling(config, by_name[ROTARY_FACTORS], file, path)
    _check_tokens(metadata, config, file)
    return config


def named(header: GgufHeader, config: dict[str, Any], file: str) -> dict[str, Tensor]:
    """The weights by transformers' names. Raises ModelRefused for a tensor that the model does not have."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # it brings numpy, which web processes do not need

    layers = config["num_hidden_layers"]
    arch = next(key for key, name in MODEL_ARCH_NAMES.items() if name == header.metadata["general.architecture"])
    names, family = get_tensor_name_map(arch, layers), FAMILIES[config["model_type"]]
    ours: dict[str, str] = {}
    for name in [*(family.prefix + name for name, _ in family.shapes(config)), family.head]:
        stem, _, kind = name.rpartition(".")
        ours[f"{names.get_name(stem)}.{kind}"] = name
    weights = [tensor for tensor in header.tensors if tensor.name != ROTARY_FACTORS]
    if surplus := next((tensor.name for tensor in weights if tensor.name not in ours), None):
        raise ModelRefused(file, surplus[:100], f"the tensor is none of a {config['model_type']} model's")
    return {ours[tensor.name]: tensor for tensor in weights}


def has_tokenizer(header: GgufHeader) -> bool:
    """Whether the file holds a tokenizer that is known."""
    names = ("tokens", "model", "pre")
    tokens, model, splits = (header.metadata.get(f"tokenizer.ggml.{name}") for name in names)
    return bool(tokens) and model in TOKENIZERS and (model == "llama" or str(splits) in SPLITS)


@cache
def _fields(name: str) -> dict[str, str | None]:
    """Fields of config.json by their keys in GGUF, as transformers maps them: read without importing it."""
    source = (transformers_folder() / "integrations" / "ggml.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GGUF_CONFIG_MAPPING":
            table: dict[str, dict[str, str | None]] = ast.literal_eval(node.value)
            return {f"{part}.{key}": field for part in (name, "tokenizer") for key, field in table[part].items()}
    raise RuntimeError("transformers has no table of GGUF's fields")


def _rope_scaling(name: str, metadata: dict[str, Any], file: str) -> dict[str, Any] | None:
    key = f"{name}.rope.scaling"
    kind, factor = metadata.get(f"{key}.type", "none"), metadata.get(f"{key}.factor", 1.0)
    if kind == "none" or (kind == "linear" and factor == 1):
        return None
    if kind not in ("linear", "yarn") or type(factor) is not float or not factor > 0:
        raise ModelRefused(file, f"{key}.type", "only rotary embeddings scaled by linear or yarn are taken")
    scaling = {"rope_type": kind, "factor": factor}
    if type(original := metadata.get(f"{key}.original_context_length")) is int:
        scaling["original_max_position_embeddings"] = original
    return scaling


def _llama3_scaling(config: dict[str, Any], tensor: Tensor, file: str, path: Path) -> dict[str, Any]:
    """Llama 3's scaling, whose factors GGUF stores as a tensor. Raises ModelRefused where they are no such factors."""
    count = tensor.end - tensor.start >> 2
    if tensor.dtype != "F32" or count > 4096:
        raise ModelRefused(file, ROTARY_FACTORS, "the factors of rotary embeddings are a few numbers in F32")
    with path.open("rb") as stream:
        stream.seek(tensor.start)
        factors = struct.unpack(f"<{count}f", stream.read(4 * count))
    scaling, base = LLAMA3 | {"factor": round(max(factors), 3)}, config.get("rope_theta", 10000.0)
    if type(base) is float and base > 0 and all(LEAST_FACTOR < factor < MAX_FACTOR for factor in factors):
        implied = [_llama3_factor(2 * math.pi * base ** (at / count), scaling) for at in range(count)]
        if all(math.isclose(*pair, rel_tol=CLOSE) for pair in zip(factors, implied, strict=True)):
            return scaling
    raise ModelRefused(file, ROTARY_FACTORS, "the factors of rotary embeddings are not those of Llama 3")


def _llama3_factor(wavelength: float, scaling: dict[str, Any]) -> float:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] / wavelength
    smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
    return 1 / ((1 - smooth) / scaling["factor"] + smooth)


def _check_tokens(metadata: dict[str, Any], config: dict[str, Any], file: str) -> None:
    """Refuses a vocabulary that is larger than the embedding, and special tokens that are none of it."""
    tokens = metadata.get("tokenizer.ggml.tokens", [])
    if not isinstance(tokens, list) or len(tokens) > config["vocab_size"]:
        reason = f"the tokens are more than the {config['vocab_size']:,} rows of token_embd.weight"
        raise ModelRefused(file, "tokenizer.ggml.tokens", reason)
    known = len(tokens) or config["vocab_size"]
    for field in ("bos", "eos", "unk", "pad"):
        number = config.get(f"{field}_token_id", 0)
        if type(number) is not int or not 0 <= number < known:
            raise ModelRefused(file, f"tokenizer.ggml.{field}", "the special token is none of the vocabulary")
