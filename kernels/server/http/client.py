"""A web server's side of its engine: sends it requests, and hands its tokens on."""

import asyncio
import itertools
import math
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kernels.ops.sampling import GREEDY, Sampling
from kernels.server.http.engine_state import EngineState
from kernels.server.http.errors import ApiError
from kernels.server.messages import AbortRequest, AddRequest, EngineOutputs, Ready, RequestsFailed, RequestVectors
from kernels.server.scheduler.requests import LogitsOptions, Logprobs


class TokenEvent(NamedTuple):
    """One token of an answer, or its end (`token` None); `cached` tokens of the prompt were in the prefix cache."""

    token: int | None
    finish_reason: str | None
    cached: int = 0
    logprobs: Logprobs | None = None
    prompt: list[Logprobs] | None = None
    """With the first token, where the prompt's tokens get log probabilities: those from the second on."""


class EngineClient:
    """A web server's requests to an engine, whose `EngineListener` it is. All methods belong to one event loop."""

    def __init__(self, send: Callable[[Any], None], wait_seconds: float = math.inf, prefix: str = "") -> None:
        """`send` brings the engine a message. A request that waits for its first step longer than `wait_seconds` is
        given up. The names of its requests begin with `prefix`.
        """
        self.state = EngineState()
        self.wait_seconds, self._send, self._prefix = wait_seconds, send, prefix
        self._names = itertools.count()
        self._open: dict[str, asyncio.Queue[Any]] = {}
        """The queue of what comes for each open request: TokenEvent, ApiError, or a vector."""
        self._ending: ApiError | None = None

    @property
    def ready(self) -> Ready | None:
        """What the engine said when it became ready; None while it is not."""
        return self.state.ready

    def not_ready(self) -> ApiError:
        """What a request is told meanwhile."""
        return ApiError(503, f"{self.state.status_line}; ask again in a moment", code="engine_not_ready")

    def state_changed(self, state: EngineState) -> None:
        """Requests are taken while the engine is ready."""
        self.state = state

    def received(self, message: Any) -> None:
        """Hands on what has come for open requests."""
        if isinstance(message, EngineOutputs):
            self._hand_on(message)
        elif isinstance(message, RequestVectors):
            for name, vector in message.vectors.items():
                queue = self._open.pop(name, None)
                if queue is not None:
                    queue.put_nowait(vector)
        elif isinstance(message, RequestsFailed):
            for name in message.names:
                queue = self._open.pop(name, None)
                if queue is not None:
                    queue.put_nowait(ApiError(500, message.sentence))

    def engine_died(self, error: ApiError) -> None:
        waiting, self._open = self._open, {}
        for queue in waiting.values():
            queue.put_nowait(error)

    def end_open(self) -> None:
        self._ending = ApiError(503, "the server is shutting down")
        self.engine_died(self._ending)

    async def answer(
        self,
        ids: list[int],
        max_tokens: int,
        sampling: Sampling,
        stop_ids: frozenset[int],
        logprobs: int | None = None,
        options: LogitsOptions | None = None,
        echo: bool = False,
    ) -> AsyncGenerator[list[TokenEvent], None]:
        """The tokens of a request's answer, each time all that have come; leaving early cancels it. `logprobs`,
        `options` and `echo` as in `AddRequest`. Raises ApiError when the engine is not ready, refuses or dies.
        """
        with self._open_request(ids, max_tokens, sampling, stop_ids, logprobs, options, echo) as queue:
            while True:
                received = [await queue.get()]
                while not queue.empty():
                    received.append(queue.get_nowait())
                events = [item for item in received if isinstance(item, TokenEvent)]
                if events and events[-1].finish_reason == "deadline":
                    raise self._overloaded()
                if events and events[-1].finish_reason == "failed":
                    sentence = "response_format: the answer went beyond what its grammar can follow"
                    raise ApiError(400, sentence, "response_format")
                if events:
                    yield events
                if events and events[-1].finish_reason:
                    return
                for item in received:
                    if isinstance(item, ApiError):
                        raise item

    async def embed(self, ids: list[int]) -> list[float]:
        """The vector of one text. Raises ApiError as `answer` does."""
        with self._open_request(ids, 1, GREEDY, frozenset()) as queue:
            answer = await queue.get()
        if isinstance(answer, ApiError):
            raise answer
        if isinstance(answer, TokenEvent):
            raise self._overloaded()
        vector: list[float] = answer
        return vector

    @contextmanager
    def _open_request(
        self,
        ids: list[int],
        max_tokens: int,
        sampling: Sampling,
        stop_ids: frozenset[int],
        logprobs: int | None = None,
        options: LogitsOptions | None = None,
        echo: bool = False,
    ) -> Iterator[asyncio.Queue[Any]]:
        """Sends a request, yields the queue of what comes for it, and cancels it if left early. Raises ApiError."""
        if self._ending is not None:
            raise self._ending
        if self.ready is None:
            raise self.not_ready()
        name, queue = f"{self._prefix}{next(self._names)}", asyncio.Queue[Any]()
        self._open[name] = queue
        self._send(AddRequest(name, ids, max_tokens, sampling, stop_ids, self.wait_seconds, logprobs, options, echo))
        try:
            yield queue
        finally:
            if self._open.pop(name, None) is not None:
                self._send(AbortRequest(name))

    def _overloaded(self) -> ApiError:
        return ApiError(503, f"no place became free within {self.wait_seconds:g} seconds", code="overloaded")

    def _hand_on(self, outputs: EngineOutputs) -> None:
        logprobs = {name: iter(each) for name, each in outputs.logprobs.items()}
        for name, token, reason in outputs.tokens:
            queue = self._open.get(name)
            if queue is not None:
                own = next(logprobs[name]) if name in logprobs else None
                prompt = outputs.prompt_logprobs.pop(name, None)
                queue.put_nowait(TokenEvent(token, reason, outputs.cached.get(name, 0), own, prompt))
            if reason:
                self._open.pop(name, None)
        for name, refusal in outputs.refusals.items():
            queue = self._open.pop(name, None)
            if queue is not None:
                queue.put_nowait(ApiError(400, *refusal))
