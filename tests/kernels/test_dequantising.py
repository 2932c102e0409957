"""Quantised models as directories in bf16: GGUF against transformers' reading and dequantisers by weight."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from kernels import registry, runners
from kernels.dequantising import gguf_tokenizer, plain_model
from kernels.dequantising.convert import convert
from kernels.dequantising.gguf_weights import dequantise_rows
from kernels.model.decoder import Decoder
from kernels.model.rounding import Rounding, round_weights
from kernels.model_files import ModelRefused, inspect
from kernels.model_files.digests import SOURCE_HASHES, hash_of, model_digest
from kernels.model_files.gguf import read_gguf
from kernels.ops import LinearCase
from kernels.plan import Plan
from kernels.quant.quantised_matrix import STORED_SCALES, stored_form
from kernels.runners.plan_files import read_model
from tests.kernels.gguf_files import BEGIN, END, TEMPLATE, TOOL, random_blocks, write_gguf

F32 = np.float32


def half(block: bytes, at: int) -> np.float32:
    return F32(np.frombuffer(block[at : at + 2], np.float16)[0])


def q4_0(block: bytes) -> Iterator[np.float32]:
    for number in range(32):
        code = block[2 + number % 16] >> (4 if number >= 16 else 0) & 15
        yield half(block, 0) * F32(code - 8)


def q4_1(block: bytes) -> Iterator[np.float32]:
    for number in range(32):
        code = block[4 + number % 16] >> (4 if number >= 16 else 0) & 15
        yield half(block, 0) * F32(code) + half(block, 2)


def q8_0(block: bytes) -> Iterator[np.float32]:
    for code in block[2:]:
        yield half(block, 0) * F32(code - 256 if code > 127 else code)


def six_bits(block: bytes, group: int) -> tuple[int, int]:
    """The scale and the least value of a group of 32 in a block of Q4_K or Q5_K."""
    packed = block[4:16]
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    high = packed[group + 4]
    return high & 15 | packed[group - 4] >> 6 << 4, high >> 4 | packed[group] >> 6 << 4


def q4_k(block: bytes) -> Iterator[np.float32]:
    yield from k_quant(block, 16, lambda group, at: 0)


def q5_k(block: bytes) -> Iterator[np.float32]:
    yield from k_quant(block, 48, lambda group, at: (block[16 + at] >> group & 1) << 4)


def k_quant(block: bytes, begin: int, high: Callable[[int, int], int]) -> Iterator[np.float32]:
    for number in range(256):
        group, at = divmod(number, 32)
        scale, least = six_bits(block, group)
        code = block[begin + group // 2 * 32 + at] >> 4 * (group % 2) & 15 | high(group, at)
        yield half(block, 0) * F32(scale) * F32(code) - half(block, 2) * F32(least)


def q6_k(block: bytes) -> Iterator[np.float32]:
    for number in range(256):
        part, rest = divmod(number, 128)
        quarter, at = divmod(rest, 32)
        low = block[part * 64 + quarter % 2 * 32 + at] >> 4 * (quarter // 2) & 15
        code = low | (block[128 + part * 32 + at] >> 2 * quarter & 3) << 4
        scale = np.int8(np.uint8(block[192 + number // 16]))
        yield half(block, 208) * F32(scale) * F32(code - 32)


def mxfp4(block: bytes) -> Iterator[np.float32]:
    """OCP's e2m1, sign and two bits of exponent and one of mantissa, times 2^(byte - 127); ggml has no -0."""
    for number in range(32):
        code = block[1 + number % 16] >> (4 if number >= 16 else 0) & 15
        exponent, mantissa = code % 8 // 2, code % 2 / 2
        value = mantissa if exponent == 0 else (1 + mantissa) * 2 ** (exponent - 1)
        yield F32((-value if code & 8 else value) * 2.0 ** (block[0] - 127)) + F32(0)


BLOCKS = {
    Type.MXFP4: mxfp4,
    Type.Q4_0: q4_0,
    Type.Q4_1: q4_1,
    Type.Q8_0: q8_0,
    Type.Q4_K: q4_k,
    Type.Q5_K: q5_k,
    Type.Q6_K: q6_k,
}


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.name)
def test_blocks_are_dequantised_to_the_bit(kind: Type) -> None:
    stored = random_blocks((3, 512), kind)
    size = {
        Type.MXFP4: 17,
        Type.Q4_0: 18,
        Type.Q4_1: 20,
        Type.Q8_0: 34,
        Type.Q4_K: 144,
        Type.Q5_K: 176,
        Type.Q6_K: 210,
    }[kind]
    wanted = [value for block in stored.reshape(-1, size) for value in BLOCKS[kind](block.tobytes())]
    assert dequantise_rows(stored, kind.name).tobytes() == np.array(wanted, F32).tobytes()


def test_16_bit_weights_keep_their_values() -> None:
    values = torch.randn(4, 8)
    for dtype, name in ((torch.bfloat16, "BF16"), (torch.float16, "F16")):
        stored = values.to(dtype).view(torch.uint8).numpy()
        assert torch.equal(torch.from_numpy(dequantise_rows(stored, name)), values.to(dtype).float())


def converted(path: Path, folder: Path) -> Path:
    folder.mkdir()
    convert({path.name: path}, folder)
    return folder


def test_q8_0_is_multiplied_by_the_codes_and_scales_that_the_file_has(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    config = inspect({path.name: path}).config
    model = runners.load(converted(path, tmp_path / "plain"), config, dtype="bf16", device="cpu")
    header, content = read_gguf(path.name, path), path.read_bytes()
    blocks = {
        tensor.name: np.frombuffer(content[tensor.start : tensor.end], np.uint8).reshape(tensor.shape[0], -1, 34)
        for tensor in header.tensors
        if tensor.dtype == "Q8_0"
    }
    result = round_weights(model, Decoder(model), "int8", Rounding())
    layer = result.layers[0]
    wanted = {"attn_output": layer["o"], "ffn_down": layer["down"], "token_embd": result.lm_head}
    wanted |= {"ffn_gate": layer["gate_up"].rows(slice(0, 512)), "ffn_up": layer["gate_up"].rows(slice(512, None))}
    for name, codes in wanted.items():
        own = next(value for key, value in blocks.items() if f"{name}." in key)
        scales = torch.from_numpy(own[:, :, :2].copy()).view(torch.float16)[..., 0]
        assert torch.equal(codes.block_scales, scales)
        assert torch.equal(
            codes.codes, torch.from_numpy(own[:, :, 2:].copy()).flatten(1) * (scales != 0).repeat_interleave(32, 1)
        )
    q = {row.tobytes() for row in next(value for key, value in blocks.items() if "attn_q." in key)[:, :, 2:]}
    assert {row.numpy().tobytes() for row in layer["qkv"].codes[:256]} == q, (
        "transformers has its rows in another order"
    )
    skinny, case = registry.variant("skinny_int8"), LinearCase(m=1, n=256, k=256, weights="int8")
    o = model.model.layers[0].self_attn.o_proj.weight
    again = o.detach().clone()
    setattr(again, STORED_SCALES, layer["o"].block_scales)
    (stream,), (same,), (other,) = (skinny.pack(case, {}, item) for item in (o, again, o.detach().clone()))
    assert torch.equal(stream, same)
    assert not torch.equal(stream, other), "rounded once more it would be another matrix"


def test_q4_1_is_multiplied_by_the_codes_scales_and_minimums_that_the_file_has(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", Type.Q4_1, tied=False)
    config = inspect({path.name: path}).config
    model = runners.load(converted(path, tmp_path / "plain"), config, dtype="bf16", device="cpu")
    compact = Decoder(model)
    assert stored_form("int4", [layer.o for layer in compact.layers]) == "int4_minimum"
    result = round_weights(model, compact, "int4_minimum", Rounding())
    header, content = read_gguf(path.name, path), path.read_bytes()
    for tensor in header.tensors:
        if tensor.dtype == "Q4_1" and any(part in tensor.name for part in ("attn_output", "ffn_down", "attn_v")):
            own = np.frombuffer(content[tensor.start : tensor.end], np.uint8).reshape(tensor.shape[0], -1, 20)
            numbers = torch.from_numpy(own[:, :, :4].copy()).view(torch.float16)
            codes = torch.from_numpy(np.concatenate([own[:, :, 4:] & 15, own[:, :, 4:] >> 4], axis=2)).flatten(1)
            name = {"attn_output": "o", "ffn_down": "down", "attn_v": "qkv"}[tensor.name.split(".")[2]]
            layer_weight = result.layers[0][name]
            layer_weight = layer_weight.rows(slice(len(layer_weight.codes) - len(codes), None))
            assert layer_weight.zeros is not None
            assert torch.equal(layer_weight.block_scales, numbers[..., 0])
            assert torch.equal(layer_weight.zeros, numbers[..., 1])
            clear = numbers[..., 0].abs() * 64 > numbers[..., 1].abs()  # else bf16 has codes of one group alike
            clear = clear.repeat_interleave(32, 1)
            assert clear.float().mean() > 0.8
            assert torch.equal(layer_weight.codes[clear], codes[clear])
    assert result.lm_head.zeros is None, "the head is int8"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "model.gguf", Type.Q4_K, tied=False)


@pytest.fixture(scope="module")
def plain(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of a folder with another file in it, beside what a process of the same id left behind."""
    (gguf.parent / "training.log").write_text("loss 1.0")
    folder = tmp_path_factory.mktemp("plain") / "model"
    folder.with_name(f".draft-model-{os.getpid()}").mkdir()
    return plain_model(gguf.parent, folder)


def test_the_directory_is_the_model_that_transformers_reads(gguf: Path, plain: Path) -> None:
    from transformers import AutoModelForCausalLM

    wanted = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
    read = AutoModelForCausalLM.from_pretrained(plain)
    ours, theirs = read.state_dict(), wanted.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    same = ("num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "eos_token_id")
    assert [getattr(read.config, name) for name in same] == [getattr(wanted.config, name) for name in same]
    facts = inspect(plain)
    assert facts.dtype == "bfloat16"
    assert not facts.quantised


def test_the_tokenizer_splits_begins_and_ends_as_the_file_says(plain: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(plain)
    assert tokenizer("12").input_ids == [BEGIN, *b"12"], "digits are apart, though there is a merge of 1 and 2"
    assert tokenizer.decode(tokenizer("Ü a  b\n").input_ids, skip_special_tokens=True) == "Ü a  b\n"
    assert tokenizer("a<tool><end>").input_ids == [BEGIN, ord("a"), TOOL, END]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<begin>", "<end>")
    assert tokenizer.chat_template == TEMPLATE
    assert json.loads((plain / "generation_config.json").read_text()) == {"eos_token_id": [END]}


def test_the_directory_is_made_once_names_its_source_and_takes_its_plans(gguf: Path, plain: Path) -> None:
    written = (plain / "config.json").stat().st_mtime_ns
    assert plain_model(gguf, plain) == plain
    assert (plain / "config.json").stat().st_mtime_ns == written
    ((path, digest),) = json.loads((plain / SOURCE_HASHES).read_text())
    assert (path, len(digest)) == ("model.gguf", 64)
    assert plain_model(plain) == plain, "a directory in bf16 stays as it is"
    config = inspect({gguf.name: gguf}).config
    digest = model_digest(config, [("as it was handed in.gguf", hash_of(gguf))], generated=False)
    assert read_model(plain, Plan(model_digest=digest, gpu="cpu", runner="eager")) == (config, False, 0)


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_scale_that_is_no_number_is_refused(tmp_path: Path, number: str) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    content = bytearray(path.read_bytes())
    start = next(tensor.start for tensor in read_gguf(path.name, path).tensors if tensor.dtype == "Q8_0")
    content[start : start + 2] = np.float16(number).tobytes()
    path.write_bytes(bytes(content))
    with pytest.raises(ModelRefused, match=r"the weights are not all numbers once they are dequantised"):
        converted(path, tmp_path / "plain")


def test_merges_of_a_vocabulary_with_scores_are_those_of_transformers() -> None:
    from transformers.integrations.ggml import GGUFTokenizerSkeleton

    tokens = ["a", "b", "c", "ab", "bc", "abc", "aab", "cab", "abcab", "ca"]
    scores = [-float(number) for number in range(len(tokens))]
    theirs = GGUFTokenizerSkeleton({"tokens": tokens, "scores": scores}).merges
    assert [
        tuple(merge.split(" ")) for merge in gguf_tokenizer.merges(dict(zip(tokens, scores, strict=True)))
    ] == theirs
