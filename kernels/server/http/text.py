"""Texts and token ids: the model's tokenizer with its chat template, or bytes where a model has none."""

import logging
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kernels.server.http.chat_template import load_template, special_tokens
from kernels.server.http.text_bounds import TooLong, byte_characters, longest_token
from kernels.server.http.tools import ToolFormat, format_of
from kernels.server.spec import json_object

logger = logging.getLogger(__name__)
Variables = Mapping[str, Any]
NO_VARIABLES: Variables = {}
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
MAX_HELD_TOKENS = 16
"""Tokens that are held back at most. A character has four bytes, so only broken ones go on for longer, and looking at
all of an answer of them again for each token takes a time that grows with its square.
"""
PROMPT_END = 64
"""So many tokens at the end of a prompt are looked at for one with a text of its own."""
PLAIN_TEMPLATE = "{role}: {content}\n"
"""A message of a chat where the model has no template of its own; the answer begins after `assistant:`."""


class TextCodec(Protocol):
    """How a model's texts become ids and back. `stop_ids` end an answer, and calls of tools have the `tool_format`."""

    stop_ids: frozenset[int]
    tool_format: ToolFormat | None

    def encode(self, text: str, max_tokens: float = math.inf, special: bool = True) -> list[int]:
        """The ids of a prompt, with the tokenizer's `special` tokens. Raises TooLong where its size implies more than
        `max_tokens`. In a thread it keeps no other waiting, however long the text is.
        """

    def chat(
        self, messages: Sequence[dict[str, Any]], max_tokens: float = math.inf, variables: Variables = NO_VARIABLES
    ) -> list[int]:
        """The ids of a chat to continue, by the template's `variables`. Raises ValueError, TooLong."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids; bytes that are no whole character end in the replacement character."""

    def token_bytes(self, token: int) -> bytes:
        """What a token within a text stands for, in UTF-8; it may be a part of a character."""

    def vocabulary(self) -> tuple[list[bytes], frozenset[int]]:
        """The bytes of every token, and the special ones, which are part of no text."""


def text_of(directory: Path | None, config: dict[str, Any]) -> TextCodec:
    """The tokenizer in a model's directory, or bytes. Code that a model brings is never run."""
    stop = _stop_ids(directory, config)
    if directory is None:
        return ByteText(stop)
    if not (directory / "tokenizer.json").is_file():
        logger.warning("%s: it holds no tokenizer.json, so the bytes of texts are taken for their ids", directory)
        return ByteText(stop)
    return ModelText(directory, stop)


def _stop_ids(directory: Path | None, config: dict[str, Any]) -> frozenset[int]:
    given = [config.get("eos_token_id")]
    if directory is not None and (directory / "generation_config.json").is_file():
        given.append(json_object(directory / "generation_config.json").get("eos_token_id"))
    ids = [item for one in given for item in (one if isinstance(one, list) else [one])]
    return frozenset(token_id for token_id in ids if isinstance(token_id, int) and token_id >= 0)


class ModelText:
    """tokenizer.json, read by its own library. transformers, which brings torch, takes seconds to import."""

    def __init__(self, directory: Path, stop_ids: frozenset[int]) -> None:
        """Raises ValueError for a tokenizer or a template that cannot be read."""
        from tokenizers import AddedToken, Tokenizer

        special = special_tokens(directory)
        try:
            tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # the library raises no class of its own
            raise ValueError(f"{directory / 'tokenizer.json'}: it cannot be read: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        known = {value.content for value in tokenizer.get_added_tokens_decoder().values()}
        tokenizer.add_tokens(
            [AddedToken(value, special=True) for value in dict.fromkeys(special.values()) if value not in known]
        )
        self._own = tokenizer
        self._template = load_template(directory)
        self.tool_format = None if self._template is None else format_of(self._template.source)
        end = tokenizer.token_to_id(special.get("eos_token", ""))
        self.stop_ids = stop_ids if end is None else stop_ids | {end}
        self._longest = longest_token(tokenizer)
        self._before: list[int] = tokenizer.encode("a", add_special_tokens=False).ids
        """A token stands behind these, since some tokenizers drop a space at the beginning of a text."""
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, max_tokens: float = math.inf, special: bool = True) -> list[int]:
        if self._longest and (min_tokens := -(-len(text.encode()) // self._longest)) > max_tokens:
            raise TooLong(min_tokens)
        # The library lets go of the interpreter's lock for a batch, and not for a single text.
        ids: list[int] = self._own.encode_batch_fast([text], add_special_tokens=special)[0].ids
        return ids

    def chat(
        self, messages: Sequence[dict[str, Any]], max_tokens: float = math.inf, variables: Variables = NO_VARIABLES
    ) -> list[int]:
        if self._template is None:
            return self.encode(plain_chat(messages, variables), max_tokens)
        return self.encode(self._template.render(messages, variables), max_tokens, special=False)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        text: str = self._own.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def token_bytes(self, token: int) -> bytes:
        if token not in self._bytes:
            self._bytes[token] = self._found_bytes(token)
        return self._bytes[token]

    def vocabulary(self) -> tuple[list[bytes], frozenset[int]]:
        special = frozenset(token for token, added in self._own.get_added_tokens_decoder().items() if added.special)
        return [*map(self._found_bytes, range(max(self._own.get_vocab().values()) + 1))], special

    def _found_bytes(self, token: int) -> bytes:
        tokenizer = self._own
        before, both = (
            tokenizer.decode(ids, skip_special_tokens=False) for ids in (self._before, [*self._before, token])
        )
        text: str = both[len(before) :]
        if REPLACEMENT not in text:
            return text.encode()
        written: str = tokenizer.id_to_token(token) or ""
        if byte := re.fullmatch("<0x([0-9A-F]{2})>", written):
            return bytes.fromhex(byte[1])
        table = byte_characters()
        return bytes(table[item] for item in written) if set(written) <= set(table) else text.encode()


class ByteText:
    """For a model without a tokenizer: a text's bytes are its ids, and an id beyond them is written as `<id>`."""

    tool_format: ToolFormat | None = None

    def __init__(self, stop_ids: frozenset[int]) -> None:
        self.stop_ids = stop_ids

    def encode(self, text: str, max_tokens: float = math.inf, special: bool = True) -> list[int]:
        encoded = text.encode()
        if len(encoded) > max_tokens:
            raise TooLong(len(encoded))
        return list(encoded)

    def chat(
        self, messages: Sequence[dict[str, Any]], max_tokens: float = math.inf, variables: Variables = NO_VARIABLES
    ) -> list[int]:
        return self.encode(plain_chat(messages, variables), max_tokens)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else f"<{token}>".encode()

    def vocabulary(self) -> tuple[list[bytes], frozenset[int]]:
        return [*map(self.token_bytes, range(256))], frozenset()


def plain_chat(messages: Sequence[dict[str, Any]], variables: Variables = NO_VARIABLES) -> str:
    """A chat as text, without a template. Raises ValueError with one sentence."""
    if any("name" in message for message in messages):
        raise ValueError("messages: this model has no chat template, which alone has a place for a name")
    if any("tool_calls" in message for message in messages):
        raise ValueError("messages: this model has no chat template, which alone has a place for calls of tools")
    if variables:
        raise ValueError("chat_template_kwargs: this model has no chat template")
    return "".join(PLAIN_TEMPLATE.format(**message) for message in messages) + "assistant:"


class IncrementalDetokenizer:
    """Turns the ids behind a prompt into text one by one. Text that further ids may still change is held back."""

    def __init__(self, text: TextCodec, prompt: Sequence[int] = (), skip_special_tokens: bool = True) -> None:
        """Decoders such as Llama 2's drop the space at the beginning of a text, so the answer is decoded behind the
        prompt's last token that has a text, and those after it: special tokens have none, bytes only a part.
        """
        self._text, self._ids, self._skip = text, list(prompt[-PROMPT_END:]), skip_special_tokens
        self._emitted = len(self._ids)
        texts = ((at, text.decode(self._ids[at : at + 1], self._skip)) for at in reversed(range(self._emitted)))
        self._begin = next((at for at, own in texts if own and REPLACEMENT not in own), 0)

    def add(self, token: int) -> str:
        """The text that the id makes certain."""
        self._ids.append(token)
        return self._take_text(flush=False)

    def rest(self) -> str:
        """What was held back, at the end of the answer."""
        return self._take_text(flush=True)

    def _take_text(self, flush: bool) -> str:
        before = self._text.decode(self._ids[self._begin : self._emitted], self._skip)
        after = self._text.decode(self._ids[self._begin :], self._skip)
        incomplete = after.endswith(REPLACEMENT) and not flush and len(self._ids) - self._emitted < MAX_HELD_TOKENS
        if incomplete or len(after) <= len(before):
            return ""
        self._begin, self._emitted = self._emitted, len(self._ids)
        return after[len(before) :]


class StopChecker:
    """Finds texts that end an answer, also across pieces. They are not part of it."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._pending = ""

    def add(self, piece: str) -> tuple[str, bool]:
        """The text that is certain not to be part of a stop, and whether one was found."""
        text = self._pending + piece
        matches = [match for match in map(text.find, self._stops) if match >= 0]
        if matches:
            self._pending = ""
            return text[: min(matches)], True
        keep = max(
            (
                size
                for stop in self._stops
                for size in range(1, min(len(stop), len(text) + 1))
                if text.endswith(stop[:size])
            ),
            default=0,
        )
        self._pending = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def rest(self) -> str:
        """What was held back, at the end of the answer."""
        pending, self._pending = self._pending, ""
        return pending
