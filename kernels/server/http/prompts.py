"""The ids of what clients send. Texts are encoded beside other requests; what can never be served is refused."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kernels.server.http.errors import ApiError
from kernels.server.http.text import TextCodec, Variables
from kernels.server.http.text_bounds import TooLong
from kernels.server.messages import Ready
from kernels.server.scheduler.requests import input_too_long, prompt_too_long

LONG_TEXT, MANY_PARTS = 2000, 100
"""Texts so long, or so many, are encoded in a thread, where the tokenizer lets go of the interpreter's lock."""
PLAIN_MESSAGE = {"role", "content"}
"""The fields of a message that is as long as its content."""
MANY_IDS = 1 << 16
"""After so many ids have been looked at, other requests get a turn. It takes some 2 ms."""
Found = TypeVar("Found")


@dataclass(frozen=True)
class Prompts:
    """What makes ids of the texts of one request to a `ready` engine. `answer` is the least number of tokens that must
    fit behind each of them; None where they are embedded. `name` is the field that holds them.
    """

    text: TextCodec
    ready: Ready
    answer: int | None
    name: str

    async def encode_all(self, prompts: Sequence[str | list[int]]) -> list[list[int]]:
        """The ids of each text. Raises ApiError."""

        def ids() -> list[list[int]]:
            return [self.text.encode(item, self.ready.longest) if isinstance(item, str) else item for item in prompts]

        texts = [item for item in prompts if isinstance(item, str)]
        return await self._check(await self.encode_in_thread(ids, texts))

    async def of_chat(self, messages: Sequence[dict[str, Any]], variables: Variables) -> list[int]:
        """The ids of a chat that the assistant is to continue. Raises ApiError."""
        return (await self._check([await self.chat(messages, variables, self.ready.longest)]))[0]

    async def chat(
        self, messages: Sequence[dict[str, Any]], variables: Variables, max_tokens: float = math.inf
    ) -> list[int]:
        """The same of a chat of any length. Raises ApiError where it must have more than `max_tokens` tokens."""
        contents = [message["content"] for message in messages]
        plain = not variables and all(message.keys() <= PLAIN_MESSAGE for message in messages)
        return await self.encode_in_thread(
            lambda: self.text.chat(messages, max_tokens, variables), contents if plain else None
        )

    @property
    def _max_tokens(self) -> int:
        return self.ready.longest - (self.answer or 0)

    async def encode_in_thread(self, work: Callable[[], Found], texts: Sequence[str] | None) -> Found:
        """What encodes these texts, run here if they are short; None: their length is not known."""
        try:
            if texts is not None and len(texts) < MANY_PARTS and sum(map(len, texts)) < LONG_TEXT:
                return work()
            return await asyncio.to_thread(work)
        except TooLong as error:
            raise self._too_long(error.tokens, least=True) from error
        except ValueError as error:
            raise ApiError(400, str(error), self.name) from error

    async def _check(self, prompts: list[list[int]]) -> list[list[int]]:
        if not prompts or not all(prompts):
            raise ApiError(400, f"{self.name}: a text has no token", self.name)
        if (longest := max(map(len, prompts))) > self._max_tokens:
            raise self._too_long(longest)
        looked = 0
        for ids in prompts:
            looked += len(ids)
            if looked > MANY_IDS:
                looked = 0
                await asyncio.sleep(0)
            if min(ids) < 0 or max(ids) >= self.ready.vocabulary:
                sentence = f"{self.name}: an id lies outside of the vocabulary of {self.ready.vocabulary:,}"
                raise ApiError(400, sentence, self.name)
        return prompts

    def _too_long(self, tokens: int, least: bool = False) -> ApiError:
        longest = self.ready.longest
        if self.answer is None:
            sentence = input_too_long(tokens, longest, least)
        else:
            sentence = prompt_too_long(tokens, self.answer, longest, least)
        return ApiError(400, sentence, self.name, "context_length_exceeded")
