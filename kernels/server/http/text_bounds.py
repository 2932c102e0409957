"""How many tokens a text has at least, from its size alone, so that far too long ones are never encoded."""

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NFC_SHRINKS = 4
"""UTF-8 bytes of a text over those of its normal form C: 3.5 at most (`tests/kernels/server/test_text_bounds.py`)."""
BYTES = range(256)


class TooLong(ValueError):
    """A text has at least `tokens` tokens, which are too many."""

    def __init__(self, tokens: int) -> None:
        super().__init__(f"the text has at least {tokens:,} tokens")
        self.tokens = tokens


def longest_token(tokenizer: "Tokenizer") -> int | None:
    """The most UTF-8 bytes that one token stands for, as BPE over all bytes bounds them; None where a token may stand
    for any number, as WordPiece's unknown one or where spaces are dropped.
    """
    model, added = tokenizer.model, list(tokenizer.get_added_tokens_decoder().values())
    if type(model).__name__ != "BPE" or any(item.lstrip or item.rstrip for item in added):
        return None
    steps = [*_steps(tokenizer.normalizer), *_steps(tokenizer.pre_tokenizer)]
    by_bytes = any(step["type"] == "ByteLevel" for step in steps)
    vocabulary = tokenizer.get_vocab(with_added_tokens=False)
    single = set(byte_characters() if by_bytes else [f"<0x{byte:02X}>" for byte in BYTES])
    if not (all(map(_keeps_all, steps)) and (by_bytes or model.byte_fallback) and single <= vocabulary.keys()):
        return None
    written = max(map(len, vocabulary)) if by_bytes else max(len(item.encode()) for item in vocabulary)
    longest = max([written, *(len(item.content.encode()) for item in added)])
    return longest * (NFC_SHRINKS if any(step["type"] == "NFC" for step in steps) else 1)


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A normalizer or pre-tokenizer as the steps that it is made of."""
    if part is None:
        return
    waiting = [json.loads(part.__getstate__())]
    while waiting:
        step = waiting.pop()
        inner = step.get("normalizers", step.get("pretokenizers"))
        if inner is None:
            yield step
        else:
            waiting += inner


def _keeps_all(step: dict[str, Any]) -> bool:
    """Whether a step shortens no text by more than normal form C does."""
    if step["type"] == "Replace":
        pattern = step["pattern"].get("String")
        return pattern is not None and len(pattern.encode()) <= len(step["content"].encode())
    if step["type"] == "Split":
        return bool(step["behavior"] != "Removed")
    return step["type"] in ("ByteLevel", "Digits", "Metaspace", "NFC", "Prepend")


@cache
def byte_characters() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for. Printable Latin-1 characters but the space stand
    for themselves, those from 256 on for the other bytes: `bytes_to_unicode` of GPT-2's encoder.
    """
    themselves = [byte for byte in range(33, 256) if chr(byte).isprintable()]
    others = [byte for byte in BYTES if byte not in themselves]
    return {chr(themselve): themselve for themselve in themselves} | {
        chr(256 + at): each for at, each in enumerate(others)
    }
