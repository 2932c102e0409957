"""Long texts: those that are far too long are known by their size, and the others keep nobody waiting."""

import asyncio
import json
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import NFC, Normalizer, Prepend, Replace, Sequence
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Split, Whitespace
from tokenizers.pre_tokenizers import Sequence as Both

from kernels.server.http.text import ByteText, text_of
from kernels.server.http.text_bounds import NFC_SHRINKS, TooLong, byte_characters, longest_token

MODEL = Path(__file__).parents[3] / "samples" / "voice-agent"
SAMPLE = text_of(MODEL, json.loads((MODEL / "config.json").read_text()))
WORDS = ["Ġ", "a", "é", "<|end|>", " ", "  ", "ΐ", "\N{KELVIN SIGN}", "list", "€", "😀", "\n"]


def made(normalizer: Normalizer | None, step: PreTokenizer | None, *, fallback: bool = False) -> Tokenizer:
    """A tokenizer of single bytes and few words, as byte-level ones are, or those that write bytes as <0x20>."""
    single = [f"<0x{byte:02X}>" for byte in range(256)] if fallback else list(byte_characters())
    own = Tokenizer(BPE({each: at for at, each in enumerate([*single, "▁"])}, [], byte_fallback=fallback))
    own.add_special_tokens(["<|end|>"])
    if normalizer:
        own.normalizer = normalizer
    if step:
        own.pre_tokenizer = step
    return own


LEVEL = ByteLevel(add_prefix_space=False)
LIKE_LLAMA_2 = made(Sequence([Prepend("▁"), Replace(" ", "▁")]), None, fallback=True)
LIKE_QWEN = made(NFC(), Both([Split(Regex(r"\s+"), "isolated"), LEVEL]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=3))).map("".join))
def test_no_text_has_fewer_tokens_than_its_size_says(text: str) -> None:
    for own, longest in ((LIKE_LLAMA_2, 7), (LIKE_QWEN, 7 * NFC_SHRINKS)):
        assert longest_token(own) == longest
        assert len(text.encode()) <= longest * len(own.encode(text).ids)


def test_normal_form_c_shrinks_no_text_by_more() -> None:
    """Every character that it leaves, against the longest texts that it makes of each part of it."""
    every = [chr(at) for at in range(0x110000) if not 0xD800 <= at < 0xE000]
    characters = [
        item for item in every if unicodedata.category(item) not in ("Cn", "Co")
    ]  # the others stay as they are
    parts = {character: unicodedata.normalize("NFD", character) for character in characters}
    longest: dict[str, int] = {}
    for each, said in parts.items():
        if len(said) == 1:
            longest[said] = max(longest.get(said, 0), len(each.encode()))
    most = {each: sum(longest[part] for part in said) for each, said in parts.items()}
    assert all(len(character.encode()) <= most[character] for character in characters)
    kept = [character for character in characters if unicodedata.is_normalized("NFC", character)]
    assert 3 < max(most[item] / len(item.encode()) for item in kept) <= NFC_SHRINKS


@pytest.mark.parametrize(
    "own",
    [
        Tokenizer(WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")),
        Tokenizer(BPE({"a": 0, "?": 1}, [], unk_token="?", fuse_unk=True)), made(None, Both([Whitespace(), LEVEL])),
        made(None, Both([Split(" ", "removed"), LEVEL])), made(Replace(Regex(" +"), " "), LEVEL),
        made(Replace("  ", " "), LEVEL),
    ],
)  # fmt: skip
def test_a_tokenizer_that_may_drop_or_gather_text_has_no_bound(own: Tokenizer) -> None:
    assert longest_token(own) is None


def test_a_token_that_takes_the_spaces_beside_it_has_no_bound() -> None:
    own = made(None, LEVEL)
    assert longest_token(own) == 7
    own.add_tokens([AddedToken("<x>", lstrip=True)])
    assert longest_token(own) is None


def test_what_is_far_too_long_is_not_encoded() -> None:
    for text in (SAMPLE, ByteText(frozenset())):
        assert text.encode("a list", 6) == text.encode("a list")
        with pytest.raises(TooLong):
            text.encode("a" * 10_000, 50)
        with pytest.raises(TooLong):
            text.chat([{"role": "user", "content": "a" * 10_000}], 50)


@pytest.mark.parametrize("encode", [SAMPLE.encode, lambda text: SAMPLE.chat([{"role": "user", "content": text}])])
def test_a_long_text_stops_no_loop_while_a_thread_encodes_it(encode) -> None:
    async def whole() -> tuple[float, float]:
        began = last = time.monotonic()
        longest = 0.0
        task = asyncio.create_task(asyncio.to_thread(encode, "a word and another, " * 50_000))
        while not task.done():
            await asyncio.sleep(0.001)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        assert len(await task) > 100_000
        return longest, last - began

    longest, took = asyncio.run(whole())
    assert longest < took / 2
