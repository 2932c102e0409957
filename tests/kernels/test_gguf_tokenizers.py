"""Tokenizers of GGUF files: how text is cut and merged, against rules of their own."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import regex

from kernels.dequantising import gguf_tokenizer
from kernels.model_files import inspect
from tests.kernels.gguf_files import byte_names, write_gguf

O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
CL100K += r"|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
STARCODER = r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXT = "HelloWORLDs it'S I've 1234567 a12 snake_case//\r\n  ÜberMÄSSIG ok?!/\n\n\t 日本 x  "
SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<|endoftext|>"]


def tokenizer(folder: Path, model_type: str, **metadata: Any) -> Any:
    from transformers import AutoTokenizer

    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    for key, value in metadata.items():
        add = {str: writer.add_string, int: writer.add_uint32, bool: writer.add_bool, list: writer.add_array}
        add[type(value)](f"tokenizer.ggml.{key}", value)
    writer.add_tensor("token_embd.weight", np.zeros((1, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    gguf_tokenizer.write("model.gguf", folder / "model.gguf", {"model_type": model_type}, folder)
    return AutoTokenizer.from_pretrained(folder)


def bytes_tokenizer(folder: Path, model_type: str, pre: str) -> Any:
    return tokenizer(folder, model_type, model="gpt2", pre=pre, tokens=[*byte_names(), "ab"], merges=["a b"])


@pytest.mark.parametrize(
    ("pre", "pattern"),
    [
        ("gpt-4o", O200K), ("dbrx", CL100K), ("smaug-bpe", CL100K), ("llama-bpe", CL100K), ("olmo", GPT2),
        ("refact", STARCODER),
    ],
)  # fmt: skip
def test_text_is_split_by_the_published_expression(tmp_path: Path, pre: str, pattern: str) -> None:
    backend = bytes_tokenizer(tmp_path, "granite", pre).backend_tokenizer
    ours = [TEXT[begin:end] for _, (begin, end) in backend.pre_tokenizer.pre_tokenize_str(TEXT)]
    assert ours == [match.group() for match in regex.finditer(pattern, TEXT)]


@pytest.mark.parametrize(("pre", "composed"), [("olmo", True), ("qwen2", True), ("gpt-4o", False), ("refact", False)])
def test_accents_are_composed_where_the_model_s_own_tokenizer_does(tmp_path: Path, pre: str, composed: bool) -> None:
    ids = bytes_tokenizer(tmp_path, "olmoe", pre)("e\N{COMBINING ACUTE ACCENT}").input_ids
    assert bytes(ids).decode() == ("é" if composed else "e\N{COMBINING ACUTE ACCENT}")
    assert json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"] == [], "none beyond the vocabulary"


PIECES = ["▁", "a", "b", "c", "bc", "ab", "▁a", "ca", "abc", "▁ab", "bca"]
SCORES = [-4.0, -5.0, -6.0, -7.0, -2.0, -1.0, -3.0, -8.0, -20.0, -12.0, -9.0]


def merged(text: str) -> Iterator[str]:
    """SentencePiece's BPE: of all neighbours whose union is known, those with the highest score become one."""
    scores, parts = dict(zip(PIECES, SCORES, strict=True)), list(text)
    while True:
        known = [(scores[a + b], -at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in scores]
        if not known:
            return iter(parts)
        at = -max(known)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@pytest.mark.parametrize(("model_type", "prefix"), [("mixtral", True), ("gemma", False), ("gemma2", False)])
def test_scores_are_those_of_merges(tmp_path: Path, model_type: str, prefix: bool) -> None:
    """Not of a unigram model, which would cut `abc` into a and bc."""
    tokens, types = [*SPECIAL, *PIECES], [2, 3, 3, 3, 3] + [1] * len(PIECES)
    own = tokenizer(
        tmp_path, model_type, model="llama", tokens=tokens, token_type=types, scores=[0.0] * 5 + SCORES,
        unknown_token_id=0, add_bos_token=False, add_space_prefix=prefix,
    )  # fmt: skip
    for text in ("abc", "abc bca", "cab ab", "bbca abcabc", " a"):
        wanted = merged(("▁" if prefix else "") + text.replace(" ", "▁"))
        assert own.tokenize(text) == list(wanted)


def test_special_tokens_of_phi_3_swallow_the_white_space_behind_them(tmp_path: Path) -> None:
    tokens, types = [*SPECIAL, *PIECES], [2, 3, 3, 3, 3] + [1] * len(PIECES)
    metadata = {"model": "llama", "tokens": tokens, "token_type": types, "scores": [0.0] * 5 + SCORES}
    own = tokenizer(tmp_path, "phi3", unknown_token_id=0, add_bos_token=False, **metadata)
    unknown, begin, _, user, end = range(5)
    assert own("<|user|>\n  <s>").input_ids == [user, begin]
    assert own("<|endoftext|>\n<|user|>").input_ids == [end, tokens.index("▁"), unknown, user]


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [({"tokenizer__ggml__pre": "tekken"}, "gpt2 tekken"), ({"tokenizer__ggml__model": "t5"}, "t5 smollm")],
)
def test_a_tokenizer_that_is_not_known_is_left_out_in_a_sentence(tmp_path: Path, metadata: Any, shown: str) -> None:
    path = write_gguf(tmp_path / "model.gguf", **metadata)
    facts = inspect({path.name: path})
    assert not facts.has_tokenizer
    assert facts.notes[0].startswith(
        f"Its tokenizer ({shown}) is not known, so it is left out; known are llama, and gpt2"
    )
