"""Grammars that answers follow, by llguidance: which tokens may come next, and when an answer is whole.

llguidance reads a grammar within milliseconds and finds the tokens that may come next in some 50 µs, without computing
them ahead for each state of the grammar. It lets go of the interpreter's lock for both.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.server.scheduler.requests import FinishReason, Grammar

WORD = 32
"""The tokens of a word of a mask."""
WHITESPACE = r"[ \n]{0,20}"
"""Between the parts of JSON: without a bound a small model may write nothing else. 20 characters indent ten levels."""
MULTIPLE = re.compile(r'"multipleOf": (\d+(?:\.\d+)?(?:[eE][+-]?\d{1,9})?)')
MAX_REMAINDERS = 100_000
"""llguidance makes a state of each remainder of `multipleOf`: so many take a second, ten million the memory."""
KEPT = 8
"""So many grammars are kept, for the choices of a request and for those that come again."""


class Grammars:
    """Makes matchers for a model's tokens."""

    def __init__(self, tokens: Sequence[bytes], special: frozenset[int], encode: Callable[[str], list[int]]) -> None:
        """`tokens` are what each token of the vocabulary stands for; those that are `special` are part of no text."""
        from llguidance import LLTokenizer

        wrapper: Any = _Tokens(tokens, special, encode)
        self._tokenizer = LLTokenizer(wrapper, n_vocab=len(tokens) + 1)
        self._read_once = lru_cache(KEPT)(self._read)

    def matcher(self, grammar: Grammar, stop_ids: frozenset[int]) -> "Matcher":
        """Raises ValueError with the reason why the grammar cannot be followed."""
        return Matcher(self._read_once(grammar).deep_copy(), self._tokenizer.vocab_size, stop_ids)

    def _read(self, grammar: Grammar) -> Any:
        from llguidance import LLMatcher, LLParserLimits, grammar_from

        text = grammar.text
        if grammar.form == "json_schema":
            with suppress(ValueError, RecursionError):  # llguidance says what is wrong
                text = json.dumps(json.loads(text))
        if math.lcm(*map(_remainders, MULTIPLE.findall(text))) > MAX_REMAINDERS:
            raise ValueError(f"a multipleOf, or several together, have more than {MAX_REMAINDERS:,} remainders")
        if grammar.form == "json_schema":
            options: Any = {"whitespace_pattern": WHITESPACE, "coerce_one_of": True}
            text = LLMatcher.grammar_from_json_schema(text, defaults=options)
        elif grammar.form == "choice":  # one lexeme: the alternatives of a rule are items of the parser, which has few
            lexeme = " | ".join(map(json.dumps, json.loads(text)))
            text = LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {lexeme}")
        else:
            text = grammar_from(grammar.form, text)
        own = LLMatcher(self._tokenizer, text, log_level=0, limits=LLParserLimits(verbose_errors=False))
        if own.is_error():
            error = own.get_error().rpartition("failed to compile JSON schema: ")[2]
            raise ValueError(" ".join((error.split("\n")[0] if grammar.form == "lark" else error).split()))
        return own


class Matcher:
    """Where one answer is in its grammar."""

    def __init__(self, own: Any, tokens: int, stop_ids: frozenset[int]) -> None:
        self._own, self._tokens = own, tokens
        self._stop_ids: NDArray[np.int64] = np.array([*stop_ids], np.int64)

    def accept(self, token: int) -> FinishReason | None:
        if not self._own.consume_token(token):
            return "failed"
        return "complete" if self._own.is_stopped() else None

    @staticmethod
    def masks(matchers: Sequence["Matcher"], vocabulary: int) -> NDArray[np.int32]:
        """[matchers, words]: a bit for each token that may come next, stop tokens where whole. Threads share them."""
        own = -(-matchers[0]._tokens // WORD)
        masks: NDArray[np.int32] = np.zeros((len(matchers), own), np.int32)
        indices = [(matcher._own, index) for index, matcher in enumerate(matchers)]
        _executor().unsafe_compute_mask_ptr(indices, masks.ctypes.data, masks.strides[0], len(masks))
        masks = np.pad(masks, ((0, 0), (0, max(0, -(-vocabulary // WORD) - own))))
        for mask, matcher in zip(masks, matchers, strict=True):
            words, bits = mask.view(np.uint32), np.uint32(1) << (matcher._stop_ids % WORD).astype(np.uint32)
            known = matcher._stop_ids // WORD < len(words)
            if matcher._own.is_error():  # any token but one that would end the answer well: `accept` then fails
                mask[:] = -1
                np.bitwise_and.at(words, (matcher._stop_ids // WORD)[known], ~bits[known])
            elif matcher._own.is_accepting():
                words[(matcher._tokens - 1) // WORD] &= ~(np.uint32(1) << np.uint32((matcher._tokens - 1) % WORD))
                np.bitwise_or.at(words, (matcher._stop_ids // WORD)[known], bits[known])
        return masks


def _remainders(multiple: str) -> int:
    """Those of a number that `multipleOf` names."""
    value = Decimal(multiple)
    if value.adjusted() > len(str(MAX_REMAINDERS)):
        return MAX_REMAINDERS + 1
    return max(1, int("".join(map(str, value.as_tuple().digits))) * 10 ** max(0, int(value.as_tuple().exponent)))


class _Tokens:
    """A vocabulary as llguidance reads one, with one token more for an answer's end: requests name stop tokens."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], special: frozenset[int], encode: Callable[[str], list[int]]) -> None:
        self.eos_token_id = len(tokens)
        self.tokens = [*tokens, b"<end>"]
        self.special_token_ids = [*special, self.eos_token_id]
        self._encode = encode

    def __call__(self, text: bytes | str) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode(errors="replace"))


@cache
def _executor() -> Any:
    from llguidance import LLExecutor

    return LLExecutor()
