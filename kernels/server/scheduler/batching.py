"""Continuous batching: what each step computes, in pure Python. Imports without torch.

Requests are served in the order of their arrival. A step takes one token of every request that is being answered, and
chunks of prompts for what these leave of a budget of tokens. A request is admitted when pages are free for all that it
has so far. When a running request needs a page and none is free, the one that came last gives its pages up and is
computed again later.

The host may be behind: `next_step` plans further steps before `commit` has the tokens of earlier ones. So it counts
tokens that are on their way, and a request that ends by a stop token may have a token computed that nobody reads.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernels.plan import KvCacheDtype
from kernels.server.scheduler.pages import ROOT, Pages, hash_block
from kernels.server.scheduler.requests import (
    FinishReason,
    Logprobs,
    Request,
    ScheduledTokens,
    Step,
    Token,
    prompt_too_long,
)

STEP_TOKENS = 2048
"""The tokens that a step with chunks on a GPU has at most, where nobody says."""
TOKENS_OF_A_CHUNK = 64
"""A pass shorter than the longest holds a chunk for so many of its tokens."""
MIXED_DECODES = (0, 32, 128, 256)
"""Numbers of decodes for which a GPU has passes with chunks, as far as so many requests run."""


@dataclass(frozen=True)
class SchedulerLimits:
    """What a backend can hold and compute at once.

    `pages` of `page_size` tokens in `kv_cache_dtype`, `max_num_seqs` requests, sequences of at most `max_model_len`
    tokens. A step takes at most `max_prefill_chunks` chunks of prompts; each counts as a multiple of `chunk_rows`
    tokens. Beside chunks, decodes are padded to the next number in `mixed`, or to `max_num_seqs`. Together they count
    as `max_num_batched_tokens` at most, but chunks may have half of these beside any number of decodes.
    `mixed_step_tokens`, if given, takes the place of `max_num_batched_tokens` in a step that has decodes, so that it
    keeps nobody waiting for longer than `kernels.server.execution.pauses` found.
    """

    pages: int
    page_size: int
    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int
    chunk_rows: int = 1
    max_prefill_chunks: int = 16
    mixed: tuple[int, ...] = MIXED_DECODES
    mixed_step_tokens: int | None = None
    kv_cache_dtype: KvCacheDtype = "auto"

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name}: {value} is not a positive number")
        if self.max_num_batched_tokens % self.chunk_rows:
            raise ValueError(
                f"max_num_batched_tokens: {self.max_num_batched_tokens} is no multiple of chunk_rows {self.chunk_rows}"
            )

    @property
    def max_seq_len(self) -> int:
        """The longest sequence in tokens that the context and all pages together hold."""
        return min(self.max_model_len, (self.pages - 1) * self.page_size)

    def prefill_budget(self, decodes: int) -> int:
        """The tokens that chunks may have beside so many decodes, a multiple of `chunk_rows`."""
        counted = min(value for value in (*self.mixed, self.max_num_seqs) if value >= decodes)
        tokens = self.mixed_step_tokens if decodes and self.mixed_step_tokens else self.max_num_batched_tokens
        budget = max(tokens - counted, tokens // 2)
        return max(1, budget // self.chunk_rows) * self.chunk_rows

    def prefill_chunks_beside(self, decodes: int) -> int:
        """The most chunks beside so many decodes: those of the smallest pass that has the room."""
        if not (decodes and self.mixed_step_tokens):
            return self.max_prefill_chunks
        return min(self.max_prefill_chunks, max(1, self.prefill_budget(decodes) // TOKENS_OF_A_CHUNK))


class Scheduler:
    """Plans steps over the requests that were added and not finished."""

    def __init__(self, limits: SchedulerLimits) -> None:
        self.limits, self.pages = limits, Pages(limits.pages, limits.page_size)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.preempted = 0
        """How often a request gave its pages up."""
        self._slots = list(range(limits.max_num_seqs))[::-1]
        self._arrived = 0

    def refusal(self, prompt: int, tokens: int) -> str | None:
        """Why a request of `prompt` and `tokens` tokens can never be served, in a sentence; None if it can."""
        if prompt < 1 or tokens < 1:
            return f"a request needs a token in its prompt and one to make, not {prompt} and {tokens}"
        longest = self.limits.max_seq_len
        return prompt_too_long(prompt, tokens, longest) if prompt + tokens > longest else None

    def add(self, request: Request) -> None:
        """Takes a request in. Raises ValueError with the sentence of `refusal`."""
        reason = self.refusal(len(request.ids), request.max_tokens)
        if reason:
            raise ValueError(reason)
        request.arrival, self._arrived = self._arrived, self._arrived + 1
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        """Ends a request and frees what it holds. Nothing happens to one that has ended."""
        if request.state != "finished":
            self._finish(request, "cancelled")

    def expire(self, now: float) -> list[Token]:
        """Gives up the requests whose deadline has passed before their first step."""
        late = [item for item in self.waiting if item.deadline < now and not item.admitted]
        for request in late:
            self._finish(request, "deadline")
        return [Token(request, None, "deadline") for request in late]

    def next_step(self) -> Step | None:
        """What the next pass computes. None when nothing can be computed before the next `commit` or `add`."""
        unfinished = (item for item in self.running if item.num_scheduled_outputs < item.max_tokens)
        decodes = sum(request.num_uncomputed_tokens == 1 for request in unfinished)
        step, used, before = Step(), 0, self.preempted
        budget, chunks = self.limits.prefill_budget(decodes), self.limits.prefill_chunks_beside(decodes)
        for request in list(self.running):
            if request.state == "running":
                used += self._schedule(request, step, budget - used, chunks)
        while self.waiting and self._slots and self.preempted == before:
            if budget - used < self.limits.chunk_rows or not self._admit(self.waiting[0]):
                break
            if self.running[-1].num_uncomputed_tokens == 1:
                decodes += 1
                budget, chunks = self.limits.prefill_budget(decodes), self.limits.prefill_chunks_beside(decodes)
            used += self._schedule(self.running[-1], step, budget - used, chunks)
        return step if step.decodes or step.prefill_chunks else None

    def multi_step(self, step: Step, count: int, longest: int) -> Step:
        """The planned step as up to `count` passes, if it has no chunks: no more than the shortest answer needs, free
        pages hold, and keep each sequence within `longest` tokens.
        """
        if step.prefill_chunks:
            return step
        for part in step.decodes:
            request = part.request
            count = min(count, 1 + request.max_tokens - request.num_scheduled_outputs, longest - part.start)
        free = self.pages.num_free
        while count > 1 and sum(self._missing_pages(decode.request, count - 1) for decode in step.decodes) > free:
            count -= 1
        if count <= 1:
            return step
        for part in step.decodes:
            request = part.request
            request.pages.extend(self.pages.allocate() for _ in range(self._missing_pages(request, count - 1)))
            request.num_computed_tokens += count - 1
            request.num_scheduled_outputs += count - 1
        return Step(step.decodes, [], count)

    def _missing_pages(self, request: Request, more: int) -> int:
        """The pages that the request lacks for `more` further tokens."""
        return max(0, self.pages.needed(request.num_computed_tokens + more) - len(request.pages))

    def commit(
        self, step: Step, tokens: Sequence[Sequence[int]], logprobs: Mapping[int, Logprobs] | None = None
    ) -> list[Token]:
        """Takes the ids that a step chose, those of each of its parts, and by a part's number the log probabilities of
        its only one. Returns the answers' new tokens, in order for each request.
        """
        committed = []
        for number, (part, ids) in enumerate(zip(step.parts, tokens, strict=True)):
            request = part.request
            for token in ids:
                if not part.samples or request.state == "finished":
                    break
                request.ids.append(token)
                reason = self._finish_reason(request, token)
                committed.append(Token(request, token, reason, (logprobs or {}).get(number)))
                if reason:
                    self._finish(request, reason)
            if part.samples and request.state != "finished":
                self._cache_full_blocks(request)
        return committed

    @staticmethod
    def _finish_reason(request: Request, token: int) -> FinishReason | None:
        if token in request.stop_ids:
            return "stop"
        if request.processor is not None and (reason := request.processor.accept(token)) is not None:
            return reason
        return "length" if request.answered == request.max_tokens else None

    def _schedule(self, request: Request, step: Step, budget: int, chunks: int) -> int:
        """Adds the request's next part to the step: at most `chunks` chunks are in it then, and the part has at most
        `budget` tokens. With a `budget` below 0 even a decode waits. Returns the tokens that the part takes of it.
        """
        left = request.num_uncomputed_tokens
        if request.num_scheduled_outputs == request.max_tokens or budget < 0:
            return 0  # its last token is on its way, or its next one is a decode of the next step
        rows = self.limits.chunk_rows
        count, cost = left, 0
        if left > 1:
            if len(step.prefill_chunks) >= chunks:
                return 0
            count = min(left, budget // rows * rows)
            cost = -(-count // rows) * rows
        if not count or not self._reserve(request, request.num_computed_tokens + count):
            return 0
        part = ScheduledTokens(request, request.num_computed_tokens, count, count == left, request.total)
        (step.decodes if left == 1 else step.prefill_chunks).append(part)
        request.num_computed_tokens += count
        request.num_scheduled_outputs += part.samples
        if left > 1:  # a page that a decode fills is cached when it is committed: no decode reads it in this step
            self._cache_full_blocks(request)
        return cost

    def _reserve(self, request: Request, tokens: int) -> bool:
        """Gives pages for `tokens` tokens; the last requests give theirs up. False if this one gave its own up."""
        missing = self.pages.needed(tokens) - len(request.pages)
        if missing <= 0:
            return True
        while self.pages.num_free < missing:
            last = self.running[-1]
            self._preempt(last)
            if last is request:
                return False
        request.pages.extend(self.pages.allocate() for _ in range(missing))
        return True

    def _admit(self, request: Request) -> bool:
        """Moves the request from waiting to running, if pages are free for all of its tokens and one more."""
        if request.in_flight:
            return False
        length = len(request.ids)
        blocks = 0 if request.echo and not request.answered else (length - 1) // self.limits.page_size
        cached_pages = self.pages.prefix(self._block_hashes(request, blocks))
        missing = self.pages.needed(min(length + 1, self.limits.max_seq_len)) - len(cached_pages)
        if self.pages.num_free - self.pages.evictable(cached_pages) < missing:
            return False
        for page in cached_pages:
            self.pages.touch(page)
        self.waiting.popleft()
        request.pages, request.num_computed_tokens = cached_pages, len(cached_pages) * self.limits.page_size
        if not request.num_scheduled_outputs:
            request.num_cached_tokens = request.num_computed_tokens
        request.num_cached_blocks, request.slot, request.state = len(cached_pages), self._slots.pop(), "running"
        request.admitted += 1
        self.running.append(request)  # in order of arrival: requests are admitted in order, and preempted from the end
        return self._reserve(request, length)

    def _preempt(self, request: Request) -> None:
        self._release(request)
        self.preempted += 1
        request.state, request.num_computed_tokens = "waiting", 0
        index = next((at for at, each in enumerate(self.waiting) if each.arrival > request.arrival), len(self.waiting))
        self.waiting.insert(index, request)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        if request.state == "running":
            self._release(request)
        else:
            self.waiting.remove(request)
        request.state, request.finish_reason = "finished", reason

    def _release(self, request: Request) -> None:
        self.running.remove(request)
        self.pages.free(request.pages)
        self._slots.append(request.slot)
        request.pages, request.slot = [], -1

    def _block_hashes(self, request: Request, count: int) -> list[bytes]:
        """The hashes of the request's first `count` full blocks."""
        size, hashes = self.limits.page_size, request.block_hashes
        while len(hashes) < count:
            start = len(hashes) * size
            hashes.append(hash_block(hashes[-1] if hashes else ROOT, request.ids[start : start + size]))
        return hashes[:count]

    def _cache_full_blocks(self, request: Request) -> None:
        """Puts the full pages whose tokens the host knows and whose keys are planned into the prefix cache."""
        full = min(request.num_computed_tokens, len(request.ids)) // self.limits.page_size
        if full <= request.num_cached_blocks:
            return
        new = slice(request.num_cached_blocks, full)
        for page, block_hash in zip(request.pages[new], self._block_hashes(request, full)[new], strict=True):
            self.pages.cache_full_block(page, block_hash)
        request.num_cached_blocks = full
