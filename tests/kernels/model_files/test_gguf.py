"""GGUF files: what is read of them before anything loads them, and the sentences about broken and hostile ones."""

import os
import resource
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from kernels.model_files import ModelRefused, inspect, is_quantised
from kernels.model_files.digests import model_digest
from kernels.model_files.gguf import MAX_ITEMS, read_gguf
from tests.kernels.gguf_files import HIDDEN, VOCABULARY, write_gguf


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "model.gguf").read_bytes()


def refused(path: Path, content: bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelRefused) as caught:
        inspect({path.name: path})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_its_model_in_bf16_whatever_its_name(tmp_path: Path) -> None:
    facts = inspect({"any name.gguf": write_gguf(tmp_path / "model.gguf", tied=False)})
    assert facts.architecture == "LlamaForCausalLM"
    assert facts.config["vocab_size"] == VOCABULARY
    assert not facts.config["tie_word_embeddings"]
    assert (facts.dtype, facts.weight_bytes) == ("bfloat16", 2 * facts.parameters)
    assert facts.quantised == "GGUF (Q8_0, F32)"
    assert facts.has_tokenizer
    assert not facts.generated
    first, second = (model_digest({}, [(name, "a")], generated=False) for name in ("a.gguf", "b.gguf"))
    assert first == second != model_digest({}, [("a.json", "a")], generated=False)


def test_a_file_stands_alone(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(whole)
    (tmp_path / "b.gguf").write_bytes(whole)
    with pytest.raises(ModelRefused, match=r"b\.gguf: a\.gguf is there too; hand in one file, parts merged by"):
        inspect(tmp_path)
    (tmp_path / "b.gguf").rename(tmp_path / "config.json")
    with pytest.raises(ModelRefused, match=r"a\.gguf: a GGUF file holds a whole model; hand it in without config"):
        inspect(tmp_path)
    (tmp_path / "config.json").unlink()
    assert is_quantised({"a.gguf": tmp_path / "a.gguf"})


def test_every_cut_and_changed_byte_of_the_header_is_read_or_refused(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "whole.gguf"
    path.write_bytes(whole)
    end = read_gguf(path.name, path).tensors[0].start
    for length in [*range(24), *range(24, end, 97), len(whole) - 1]:
        assert refused(tmp_path / "cut.gguf", whole[:length])
    path = tmp_path / "model.gguf"
    for at in range(0, 400, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with suppress(ModelRefused):
            inspect({path.name: path})


def test_a_long_file_takes_no_more_memory_than_its_header(tmp_path: Path, whole: bytes) -> None:
    path, limits = tmp_path / "long.gguf", resource.getrlimit(resource.RLIMIT_AS)
    path.write_bytes(whole)
    os.truncate(path, 2**34)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, limits[1]))
    try:
        assert inspect({path.name: path}).files == {path.name: 2**34}
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def with_counts(tensors: int, entries: int, rest: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + rest


def entry(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def tensor(name: str, shape: list[int], kind: int = 0, offset: int = 0) -> bytes:
    sizes = b"".join(struct.pack("<Q", size) for size in shape)
    return (
        struct.pack("<Q", len(name))
        + name.encode()
        + struct.pack("<I", len(shape))
        + sizes
        + struct.pack("<IQ", kind, offset)
    )


HOSTILE: dict[str, tuple[bytes, str]] = {
    "another file": (b"\x80\x04" + bytes(64), "this is not a GGUF file"),
    "version": (with_counts(1, 1, version=1), "version 1 is not one of 2, 3"),
    "big-endian": (with_counts(1, 1, version=3 << 24), "big-endian"),
    "tensor count": (with_counts(2**60, 1), "are more than the 200,000 taken"),
    "entry count": (with_counts(1, 2**60), "are more than the 10,000 taken"),
    "array": (with_counts(1, 1, entry("a", 9, struct.pack("<IQ", 0, 2**60))), f"at most {MAX_ITEMS:,} items together"),
    "array in an array": (with_counts(1, 1, entry("a", 9, struct.pack("<IQ", 9, 1))), "values of type 9 are not taken"),
    "long text": (with_counts(1, 1, entry("a", 8, struct.pack("<Q", 2**62))), "is longer than the 16,777,216 taken"),
    "no text": (with_counts(1, 1, entry("a", 8, struct.pack("<Q", 1) + b"\xff")), "the text is not UTF-8"),
    "twice": (with_counts(1, 2, 2 * entry("a", 7, b"\1")), "the key is there twice"),
    "alignment": (with_counts(1, 1, entry("general.alignment", 4, struct.pack("<I", 3))), "must be a power of two"),
    "rank": (with_counts(1, 0, tensor("a", [1] * 5)), "a tensor has 1 to 4 dimensions, not 5"),
    "size": (with_counts(1, 0, tensor("a", [2**63])), "each dimension is from 1 to 2^40"),
    "type": (with_counts(1, 0, tensor("a", [32], kind=40)), "tensors of ggml's type 40 are not taken, only F32"),
    "blocks": (with_counts(1, 0, tensor("a", [33], kind=8)), "rows of 33 are no whole blocks of 32 weights"),
    "offset": (with_counts(1, 0, tensor("a", [1], offset=1)), "the offset 1 is no multiple of the alignment 32"),
    "beyond": (with_counts(1, 0, tensor("a", [2**20] * 2)), "it is truncated"),
    "no tensor": (with_counts(0, 0), "the file holds no tensor"),
    "overlap": (with_counts(2, 0, tensor("a", [8]) + tensor("b", [8]) + bytes(128)), "inside the one before it"),
    "architecture": (with_counts(1, 0, tensor("a", [1]) + bytes(64)), "GGUF files of 'None' are not taken"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    assert sentence in refused(tmp_path / "model.gguf", content)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arch": "mamba"}, "GGUF files of 'mamba' are not taken, only of llama, qwen2"),
        ({"split__count": 3}, "one part of several; merge them with `llama-gguf-split --merge`"),
        ({"arch": "granite", "granite__expert_count": 8}, "GGUF files of 'granite' with experts are not taken"),
        ({"llama__expert_count": 8}, "blk.0.ffn_gate_inp.weight: the metadata imply this tensor of a mixture"),
        ({"arch": "phi3", "phi3__rope__scaling__type": "longrope"}, "rope_factors_long.weight: the factors of rotary"),
        ({"arch": "phi3", "phi3__rope__scaling__type": "yarn"}, "only rotary embeddings scaled by longrope"),
        ({"arch": "gpt-oss"}, "only rotary embeddings scaled by yarn are taken"),
        ({"llama__block_count": 2}, "the field says 2, but the files of weights hold 1 layers"),
        ({"llama__block_count": 2**31}, "must be from 1 to 1,024"),
        ({"llama__embedding_length": HIDDEN * 2}, "implies"),
        ({"llama__attention__head_count": None}, "the field is missing"),
        ({"llama__rope__scaling__type": "longrope"}, "only rotary embeddings scaled by linear or yarn"),
        ({"arch": "gemma2", "gemma2__attention__sliding_window": "wide"}, "sliding_window: must be one number"),
        ({"tokenizer__ggml__eos_token_id": 10**6}, "the special token is none of the vocabulary"),
    ],
)
def test_metadata_that_contradict_the_model_are_one_sentence(tmp_path, changes, sentence):
    assert sentence in refused(write_gguf(tmp_path / "model.gguf", **changes))


def test_llama_3s_rotary_factors_become_its_scaling(tmp_path: Path) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling |= {"original_max_position_embeddings": 8192, "rope_theta": 10000.0}
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(head_dim=64, rope_parameters=scaling), "cpu")
    factors = (10000.0 ** (-np.arange(32) / 32) / scaled.numpy()).astype(np.float32)
    path = write_gguf(tmp_path / "model.gguf", factors=factors)
    assert inspect({path.name: path}).config["rope_scaling"].items() <= scaling.items()
    path = write_gguf(tmp_path / "model.gguf", factors=factors * np.float32(1.5))
    assert "the factors of rotary embeddings are not those of Llama 3" in refused(path)
