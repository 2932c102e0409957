"""A device that runs steps on Python lists: what was written into a KV page is what a later step reads from it."""

from dataclasses import dataclass, field
from hashlib import sha256

from kernels.server.execution.shapes import PassShape, pass_shapes, smallest_holding
from kernels.server.scheduler.batching import Scheduler, SchedulerLimits
from kernels.server.scheduler.requests import Request, Step

VOCABULARY = 50


def next_token(tokens: list[int]) -> int:
    """The model: a token that depends on every token before it, and on their order."""
    return sha256(bytes(tokens)).digest()[0] % VOCABULARY


def alone(prompt: list[int], tokens: int, stop_ids: frozenset[int]) -> list[int]:
    """The answer to a request that is served alone, without pages."""
    ids = list(prompt)
    while len(ids) < len(prompt) + tokens:
        ids.append(next_token(ids))
        if ids[-1] in stop_ids:
            break
    return ids[len(prompt) :]


@dataclass
class Device:
    """Runs steps in order; `last` is the newest token of each slot."""

    limits: SchedulerLimits
    cache: dict[tuple[int, int], int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    shapes: list[PassShape] = field(init=False)

    def __post_init__(self) -> None:
        self.shapes = pass_shapes(self.limits)

    def run(self, step: Step) -> list[list[int]]:
        """The ids that each part chooses, pass after pass."""
        assert step.count == 1 or not step.prefill_chunks
        passes = [self._pass(step, done) for done in range(step.count)]
        return [list(ids) for ids in zip(*passes, strict=True)]

    def _pass(self, step: Step, done: int) -> list[int]:
        """Writes the tokens of all parts into their pages, then chooses the next ones from what the pages hold."""
        size = self.limits.page_size
        assert len(step.prefill_chunks) <= self.limits.max_prefill_chunks
        assert len({id(item.request) for item in step.parts}) == len(step.parts) <= self.limits.max_num_seqs
        shape = smallest_holding(self.shapes, step)
        assert not shape.blocks or shape.rows <= max(
            self.limits.max_num_batched_tokens, shape.decodes + self._least_room
        )
        assert all(
            prefill_chunk.start + prefill_chunk.tokens <= len(prefill_chunk.request.ids)
            for prefill_chunk in step.prefill_chunks
        ), "a chunk is not known"
        written = []
        for part in step.parts:
            request = part.request
            for at in range(part.start + done, part.start + done + part.tokens):
                known = at < len(request.ids)
                slot = request.pages[at // size], at % size
                written.append(slot)
                self.cache[slot] = request.ids[at] if known else self.last[request.slot]
        assert len(set(written)) == len(written)
        chosen = []
        for part in step.parts:
            end, pages = part.start + done + part.tokens, part.request.pages
            chosen.append(next_token([self.cache[pages[at // size], at % size] for at in range(end)]))
        for part, token in zip(step.parts, chosen, strict=True):
            if part.samples:
                self.last[part.request.slot] = token
        return chosen

    @property
    def _least_room(self) -> int:
        """The tokens that chunks may have beside any number of decodes."""
        rows = self.limits.chunk_rows
        return max(rows, self.limits.max_num_batched_tokens // 2 // rows * rows)


def check_pages(scheduler: Scheduler) -> None:
    """Every page is read by as many running requests as it counts, is free, or both counts are zero: none is leaked."""
    pages = scheduler.pages
    readers = [0] * pages.count
    for request in scheduler.running:
        assert len(set(request.pages)) == len(request.pages)
        for page in request.pages:
            readers[page] += 1
    assert readers == pages.ref_cnt
    assert pages.num_free == sum(not reader for reader in readers[1:])
    for request in scheduler.running:  # a page that several read is full of tokens they have in common
        for at, page in enumerate(request.pages):
            if readers[page] > 1:
                assert (at + 1) * pages.size <= request.num_computed_tokens


def held(request: Request) -> bool:
    return bool(request.pages) or request.slot >= 0
