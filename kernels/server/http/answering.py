"""An answer as it is told to a client: choices, their texts, and the counts of tokens."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from kernels.ops.sampling import Sampling
from kernels.server.http.client import EngineClient, TokenEvent
from kernels.server.http.errors import ApiError
from kernels.server.http.metrics import Metrics
from kernels.server.http.schemas import CompletionRequest, GenerationRequest
from kernels.server.http.text import IncrementalDetokenizer, StopChecker, TextCodec
from kernels.server.http.tools import ToolCall, ToolCalling, ToolParser
from kernels.server.scheduler.requests import LogitsOptions, Logprobs


class LogprobEntry(NamedTuple):
    """A token with its log probabilities; its text begins at the character `offset` of the answer."""

    token: int
    offset: int
    logprobs: Logprobs | None
    """None for the first token of a prompt, which nothing precedes."""


class Entries:
    """Keeps entries until the text of their tokens is sent, so that a stop text removes them together with the text."""

    def __init__(self) -> None:
        self._pending: list[LogprobEntry] = []
        self._generated = self._sent = 0

    def add(self, token: int, logprobs: Logprobs | None, produced: int) -> None:
        """Adds a token that makes the text `produced` characters longer. A stop text may still remove some of them."""
        self._pending.append(LogprobEntry(token, self._generated, logprobs))
        self._generated += produced

    def take(self, characters: int) -> list[LogprobEntry]:
        """Returns the entries to send with the answer's next `characters`: those whose text begins before their end."""
        self._sent += characters
        count = sum(logprob_entry.offset < self._sent for logprob_entry in self._pending)
        entries, self._pending = self._pending[:count], self._pending[count:]
        return entries

    def rest(self) -> list[LogprobEntry]:
        """Returns the entries that are left at the end of an answer without a stop text."""
        entries, self._pending = self._pending, []
        return entries


LONGEST_GRAMMAR = 1 << 17
"""The characters of a grammar. OpenAI takes 120,000 of a schema; ten times as many keep others waiting for seconds."""
MAX_ECHOED_TOKENS = 1 << 21
"""The tokens of prompts that an answer repeats, each with its likeliest ones. All of them take some 250 MiB."""


@dataclass
class Piece:
    """What one step adds to a choice: text and ids, perhaps empty, the reason at the end, log probabilities."""

    choice: int
    text: str = ""
    ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    entries: list[LogprobEntry] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)


@dataclass
class Usage:
    """The counts of tokens of one request."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0

    @property
    def document(self) -> dict[str, object]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass
class Completion:
    """The choices of one request: `n` for each prompt, in their order, in sequences of `longest` tokens at most."""

    client: EngineClient
    text: TextCodec
    metrics: Metrics
    request: GenerationRequest
    prompts: Sequence[list[int]]
    longest: int
    calling: ToolCalling | None = None
    """How calls of tools are looked for in the answers."""
    usage: Usage = field(default_factory=Usage)
    _texts: dict[int, list[str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.usage.prompt = sum(map(len, self.prompts))
        request = self.request
        if self.client.ready and max(request.logit_bias, default=0) >= self.client.ready.vocabulary:
            raise ApiError(400, "logit_bias: an id lies outside of the vocabulary", "logit_bias")
        self._options = request.logits_options
        if self.calling and self.calling.grammar:
            self._options = (self._options or LogitsOptions())._replace(grammar=self.calling.grammar)
        if self._options and self._options.grammar and len(self._options.grammar.text) > LONGEST_GRAMMAR:
            name = "tools" if self.calling and self.calling.grammar else "response_format"
            raise ApiError(400, f"{name}: the grammar has more than {LONGEST_GRAMMAR:,} characters", name)
        echo = isinstance(request, CompletionRequest) and request.echo
        if echo and self.usage.prompt * request.n * (1 + (request.likeliest or 0)) > MAX_ECHOED_TOKENS:
            raise ApiError(400, f"echo: more than {MAX_ECHOED_TOKENS:,} tokens or log probabilities of prompts", "echo")
        seed = secrets.randbits(63) if request.seed is None else request.seed % (1 << 64)
        try:
            self._sampling = [
                Sampling(request.temperature, request.top_k, request.top_p, seed, stream) for stream in range(request.n)
            ]
        except ValueError as error:
            raise ApiError(400, str(error), str(error).split(":")[0]) from error

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The pieces of all choices as they come. Raises ApiError; the other choices then end too."""
        choices = [(ids, how) for ids in self.prompts for how in self._sampling]
        together = self._choice(0, *choices[0]) if len(choices) == 1 else self._together(choices)
        async with aclosing(together) as pieces:
            async for piece in pieces:
                yield piece

    async def _together(self, choices: Sequence[tuple[list[int], Sampling]]) -> AsyncGenerator[Piece, None]:
        queue: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue()

        async def run(choice: int, ids: list[int], sampling: Sampling) -> None:
            try:
                async for piece in self._choice(choice, ids, sampling):
                    queue.put_nowait(piece)
                queue.put_nowait(None)
            except Exception as error:
                queue.put_nowait(error)

        tasks = [asyncio.create_task(run(choice, *each)) for choice, each in enumerate(choices)]
        left = len(tasks)
        try:
            while left:
                piece = await queue.get()
                if isinstance(piece, BaseException):
                    raise piece
                if piece is None:
                    left -= 1
                else:
                    yield piece
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _texts_of(self, prompt: int) -> list[str]:
        """The text of each token of a prompt, found once for all of its choices: 8,000 tokens take 70 ms."""
        if prompt not in self._texts:
            detokenizer = IncrementalDetokenizer(self.text, (), self.request.skip_special_tokens)
            texts = [detokenizer.add(token) for token in self.prompts[prompt]]
            self._texts[prompt] = [*texts[:-1], texts[-1] + detokenizer.rest()]
        return self._texts[prompt]

    async def _choice(self, choice: int, ids: list[int], sampling: Sampling) -> AsyncGenerator[Piece, None]:
        request, text = self.request, self.text
        stop_ids = frozenset(request.stop_token_ids) | (frozenset() if request.ignore_eos else text.stop_ids)
        tools = None if self.calling is None else ToolParser(self.calling)
        echo = isinstance(request, CompletionRequest) and request.echo
        pieces = IncrementalDetokenizer(text, ids, request.skip_special_tokens)
        state = StreamState(pieces, StopChecker(request.stop), Entries(), tools)
        began, first, count = time.monotonic(), 0.0, 0
        most = request.tokens(self.longest - len(ids))
        of_prompt = echo and request.likeliest is not None
        tokens = self.client.answer(ids, most, sampling, stop_ids, request.likeliest, self._options, of_prompt)
        async with aclosing(tokens) as answer:
            async for events in answer:
                if not count:
                    first = time.monotonic()
                    self.metrics.first_token.observe(first - began)
                    if choice % request.n == 0:  # a prompt counts once, and its other choices find what this one made
                        self.usage.cached += events[0].cached
                        self.metrics.cached_tokens.inc(events[0].cached)
                piece = Piece(choice)
                if echo and not count:
                    texts = self._texts_of(choice // request.n)
                    state.repeat(piece, texts, ids, events[0].prompt or [] if of_prompt else None)
                for event in events:
                    if request.limit == 0:  # the answer's only token was made for the sake of the prompt
                        piece.finish_reason = "length"
                        break
                    state.extend(piece, event)
                    if piece.finish_reason:
                        break
                count += len(piece.ids)
                self.usage.completion += len(piece.ids)
                self.metrics.tokens.inc(len(piece.ids))
                yield piece
                if piece.finish_reason:
                    break
        now = time.monotonic()
        self.metrics.whole.observe(now - began)
        if count > 1:
            self.metrics.per_token.observe((now - first) / (count - 1))


@dataclass
class StreamState:
    """What has been sent of one choice, and what waits for further tokens."""

    pieces: IncrementalDetokenizer
    stops: StopChecker
    entries: Entries
    tools: ToolParser | None = None

    def repeat(
        self, piece: Piece, texts: Sequence[str], prompt: Sequence[int], logprobs: list[Logprobs] | None
    ) -> None:
        """Begins with the texts of the prompt's tokens. `logprobs` are those from the second one on, or None."""
        piece.text += "".join(texts)
        if logprobs is not None:
            for text, token, own in zip(texts, prompt, [None, *logprobs], strict=True):
                self.entries.add(token, own, len(text))
        piece.entries += self.entries.take(len(piece.text)) + self.entries.rest()

    def extend(self, piece: Piece, event: TokenEvent) -> None:
        """Adds one token to a piece. The text of a token that ends the answer by itself is not part of it."""
        assert event.token is not None
        piece.ids.append(event.token)
        new = "" if event.finish_reason == "stop" else self.pieces.add(event.token)
        if event.logprobs is not None and event.finish_reason != "stop":
            self.entries.add(event.token, event.logprobs, len(new))
        text, stopped = self.stops.add(new + (self.pieces.rest() if event.finish_reason else ""))
        piece.finish_reason = "stop" if stopped or event.finish_reason == "complete" else event.finish_reason
        text += self.stops.rest() if event.finish_reason and not stopped else ""
        if self.tools is None:
            piece.text += text
        else:
            content, calls = self.tools.add(text, piece.finish_reason is not None)
            piece.text += content
            piece.calls += calls
            if piece.finish_reason == "stop" and self.tools.count:
                piece.finish_reason = "tool_calls"
        if event.logprobs is not None:
            piece.entries += self.entries.take(len(text))
            piece.entries += self.entries.rest() if event.finish_reason and not stopped else []
