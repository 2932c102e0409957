"""The megakernel as a backend: few sequences, several tokens a launch.

The pages stay the truth. An instance of the megakernel has caches of its own, with a place for each of its sequences:

    a sequence joins   its rows in pages ──copy──► a place of the instance
    each launch        `count` tokens of all sequences, each at its own position; then the new rows ──copy──► pages
    a sequence leaves  nothing: its pages have all of its rows

So the next step of any sequence may be computed by any backend, and the prefix cache and preemption work as without it.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.model.tensor_parallel_pass import follow, join
from kernels.ops.sampling import GREEDY, Sampling
from kernels.server.execution.packed import PagedState
from kernels.server.execution.served_plans import MEGAKERNEL_BATCHES
from kernels.server.scheduler.batching import SchedulerLimits
from kernels.server.scheduler.requests import Logprobs, Request, ScheduledTokens, Step

COUNT = 4
"""Tokens of a launch. A prompt that arrives waits for two launches at most, one that runs and one behind it."""
IN_FLIGHT = 2
"""Steps that may be launched and not read."""
MAX_CAPACITY, CAPACITY_STEP = 8192, 64
"""Tokens of the longest sequence for which an instance has room, and what its room is a multiple of."""
TIMED_LENGTH, TIMED_LAUNCHES = 256, 10
"""Tokens of each sequence, and launches, when an instance is timed."""


class Instance(Protocol):
    """A megakernel for `batch` sequences of up to `capacity` tokens. Each rank's `caches`, keys and values [layers,
    batch, capacity, kv_heads, head_dim], hold what precedes a launch, and get its rows.
    """

    batch: int
    capacity: int
    caches: Sequence[tuple[Tensor, Tensor]]

    def launch(self, first: Tensor, positions: Sequence[int], sampling: Sequence[Sampling], tokens: Tensor) -> None:
        """Makes tokens [count, batch] int32, on the host, after `first` [batch] int64. Does not wait for the device."""


class SlotState(NamedTuple):
    """What a place of an instance holds: the first `tokens` rows of a request, as it was admitted."""

    request: Request
    admitted: int
    tokens: int


class MegakernelLaunchedStep(NamedTuple):
    """A launched step: its tokens [count, batch], the places of its parts, and when."""

    tokens: NDArray[np.int32]
    places: list[int]
    event: "torch.cuda.Event | None"


class MegakernelHostBuffers(NamedTuple):
    """The host's memory of one step: numbers for the device int64, and the tokens that come back int32."""

    numbers: Tensor
    tokens: Tensor


class MegakernelBackend:
    """Computes steps of up to `max_num_seqs` decodes, over the kernels backend's pages: each rank's `states`."""

    def __init__(
        self, states: Sequence[PagedState], limits: SchedulerLimits, instances: Sequence[Instance], count: int = COUNT
    ) -> None:
        """`instances` by rising batch, all of one capacity. Raises ValueError without any."""
        if not instances:
            raise ValueError("instances: there is none")
        self._pages = [(state.keys, state.values) for state in states]
        self._devices = [state.last.device for state in states]
        self.state, self.limits, self.instances, self.count = states[0], limits, list(instances), count
        self.longest = min(instance.capacity for instance in instances)
        self.max_num_seqs = instances[-1].batch
        self._slots: list[list[SlotState | None]] = [[None] * instance.batch for instance in instances]
        numbers, self._device = (
            2 * self.max_num_seqs * (self.longest + count) + 3 * self.max_num_seqs,
            self._devices[0],
        )
        self._numbers = torch.zeros(numbers, dtype=torch.int64, device=self._device)
        self._newest = torch.zeros(self.max_num_seqs, dtype=torch.int32, device=self._device)
        self._host = deque(self._made_host(numbers) for _ in range(IN_FLIGHT + 1))
        self._launched: deque[MegakernelLaunchedStep] = deque()
        self.timed: dict[int, dict[str, float]] = {}
        """The ms of a token of both backends, by the number of sequences, where they were timed for the change-over."""

    @torch.no_grad()
    def prepare(self) -> None:
        """Compiles the copies between pages and instances, one row there and back: no request waits for that."""
        row = torch.zeros((2, 1), dtype=torch.int64, device=self._device)
        for instance in self.instances:
            self._move(row, self._pages, instance.caches)
            self._move(row, instance.caches, self._pages)

    def keep(self, most: int) -> None:
        """Takes no more than `most` sequences from now on, and lets go of the instances for more."""
        kept = 1 + self._number(most)
        self.instances, self._slots, self.max_num_seqs = self.instances[:kept], self._slots[:kept], most

    def can_run(self, step: Step) -> bool:
        """Not a step with log probabilities or changed logits: the megakernel keeps no logits."""
        if (
            step.prefill_chunks
            or step.processes_logits
            or len(step.decodes) > self.max_num_seqs
            or any(part.request.logprobs is not None for part in step.parts)
        ):
            return False
        return all(part.start + step.count <= self.longest for part in step.decodes)

    @torch.no_grad()
    def launch(self, step: Step) -> None:
        number = self._number(len(step.decodes))
        instance, host = self.instances[number], self._host[0]
        self._host.rotate()
        places, joined = self._admit(number, step)
        positions, sampling = [0] * instance.batch, [GREEDY] * instance.batch
        given, source = np.zeros(instance.batch, np.int64), np.full(instance.batch, -1)
        target = np.full(instance.batch, len(self.state.last) - 1)
        for place, part in zip(places, step.decodes, strict=True):
            request = part.request
            positions[place], sampling[place], target[place] = part.start, request.sampling, request.slot
            if part.start < len(request.ids):
                given[place] = request.ids[part.start]
            else:
                source[place] = request.slot
        launched = [
            self._rows(part, place, instance, part.start, step.count)[::-1]
            for place, part in zip(places, step.decodes, strict=True)
        ]
        joining, back, first, slots, to = self._send(
            host, joined, np.concatenate(launched, axis=1), given, source, target
        )
        self._move(joining, self._pages, instance.caches)
        first = torch.where(slots >= 0, self.state.last[slots.clamp_min(0)], first)
        tokens = host.tokens[: step.count * instance.batch].view(step.count, instance.batch)
        tokens.fill_(-1)
        instance.launch(first, positions, sampling, tokens)
        self._move(back, instance.caches, self._pages)
        newest = self._newest[: instance.batch].copy_(tokens[-1], non_blocking=True)
        self.state.last.index_copy_(0, to, newest.long())
        self._launched.append(MegakernelLaunchedStep(tokens.numpy(), places, self._event()))

    def read(self) -> tuple[list[list[int]], dict[int, Logprobs]]:
        done = self._launched.popleft()
        if done.event is not None:
            done.event.synchronize()
        tokens = [done.tokens[:, place].tolist() for place in done.places]
        if any(token < 0 for ids in tokens for token in ids):
            raise RuntimeError("the megakernel gave up: it left tokens of a launch unmade")
        return tokens, {}

    @torch.no_grad()
    def token_ms(self, sequences: int) -> float:
        """The ms of one token of each of `sequences` sequences of TIMED_LENGTH tokens, without joining."""
        instance, host = self.instances[self._number(sequences)], self._host[0]
        first = torch.arange(instance.batch, dtype=torch.int64, device=self._device)
        positions = [min(TIMED_LENGTH, self.longest) - self.count] * instance.batch
        tokens = host.tokens[: self.count * instance.batch].view(self.count, instance.batch)
        rounds = TIMED_LAUNCHES if self._device.type == "cuda" else 1
        for timed in (False, True):
            self._synchronize()
            began = time.perf_counter()
            for _ in range(rounds if timed else 1):
                instance.launch(first, positions, [GREEDY] * instance.batch, tokens)
            self._synchronize()
        self._slots[self._number(sequences)] = [None] * instance.batch
        return (time.perf_counter() - began) * 1e3 / rounds / self.count

    def _move(
        self, at: Tensor, source: Sequence[tuple[Tensor, Tensor]], target: Sequence[tuple[Tensor, Tensor]]
    ) -> None:
        """`move_rows` of every rank, on its GPU, in order with the first GPU's current stream."""
        follow(self._devices)
        for device, own, to in zip(self._devices, source, target, strict=True):
            with device_guard(device):
                move_rows(at.to(device, non_blocking=True), own, to)
        join(self._devices)

    def _number(self, sequences: int) -> int:
        """The number of the smallest instance for `sequences` sequences."""
        return next(at for at, each in enumerate(self.instances) if each.batch >= sequences)

    def _admit(self, number: int, step: Step) -> tuple[list[int], NDArray[np.int64]]:
        """Each part's place in the instance, and the rows to copy [2, any], in pages and instance. A sequence that
        stays lacks its latest tokens' rows; what lies in places without a part is lost.
        """
        instance, slots = self.instances[number], self._slots[number]
        known = {(id(slot.request), slot.admitted): at for at, slot in enumerate(slots) if slot is not None}
        known_places = [known.get((id(part.request), part.request.admitted)) for part in step.decodes]
        free = [at for at in range(instance.batch) if at not in known_places]
        places = [free.pop(0) if at is None else at for at in known_places]
        rows = []
        for place, part, at in zip(places, step.decodes, known_places, strict=True):
            before = slots[place]
            begin = before.tokens if at is not None and before is not None else 0
            rows.append(self._rows(part, place, instance, begin, part.start - begin))
            slots[place] = SlotState(part.request, part.request.admitted, part.start + step.count)
        for place in free:
            slots[place] = None
        return places, np.concatenate(rows, axis=1)

    def _rows(self, part: ScheduledTokens, place: int, instance: Instance, begin: int, count: int) -> NDArray[np.int64]:
        """The rows [2, count] of the part's tokens from `begin` on, in the pages and in the instance."""
        size = self.limits.page_size
        at = np.arange(begin, begin + count)
        pages = np.asarray(part.request.pages[: -(-(begin + count) // size)], np.int64)
        return np.stack([pages[at // size] * size + at % size, place * instance.capacity + at])

    def _send(self, host: MegakernelHostBuffers, *arrays: NDArray[np.int64]) -> list[Tensor]:
        """The arrays on the device, by one copy."""
        at, tensors = 0, []
        numbers = host.numbers.numpy()
        for array in arrays:
            numbers[at : at + array.size] = array.ravel()
            tensors.append(self._numbers[at : at + array.size].view(array.shape))
            at += array.size
        self._numbers[:at].copy_(host.numbers[:at], non_blocking=True)
        return tensors

    def _made_host(self, numbers: int) -> MegakernelHostBuffers:
        pinned = self._device.type == "cuda"
        tokens = torch.zeros(self.max_num_seqs * self.count, dtype=torch.int32, pin_memory=pinned)
        return MegakernelHostBuffers(torch.zeros(numbers, dtype=torch.int64, pin_memory=pinned), tokens)

    def _event(self) -> "torch.cuda.Event | None":
        if self._device.type != "cuda":
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def capacity_of(context: int) -> int:
    """The tokens of a sequence for which instances have room, for a server of such sequences."""
    return -(-min(context, MAX_CAPACITY) // CAPACITY_STEP) * CAPACITY_STEP


def batches_within(most: int, free: float, size: Callable[[int], int]) -> dict[int, int]:
    """The batches of instances for `most` sequences, with size(batch) in bytes: the smallest that fit into `free`."""
    sizes: dict[int, int] = {}
    for batch in MEGAKERNEL_BATCHES:
        if batch >= 2 * most or sum(sizes.values()) + size(batch) > free:
            break
        sizes[batch] = size(batch)
    return sizes


def crossover_batch(kernels_ms: Mapping[int, float], megakernel_ms: Mapping[int, float]) -> int:
    """The most sequences up to which the megakernel takes fewer ms a token; 0 where none."""
    most = 0
    for sequences in sorted(megakernel_ms):
        if megakernel_ms[sequences] >= kernels_ms[sequences]:
            break
        most = sequences
    return most


def move_rows(at: Tensor, source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Copies rows at[0] of source to rows at[1] of target, at [2, count] int64.

    source and target are keys and values [layers, any, any, kv_heads, head_dim], contiguous; a row is one of their
    second and third dimensions together. On a GPU a row beyond them is not seen.
    """
    if not at.shape[1]:
        return
    if source[0].is_cuda:
        from kernels.server.execution.rows_triton import move

        move(at, source, target)
        return
    for old, new in zip(source, target, strict=True):
        new.flatten(1, 2)[:, at[1]] = old.flatten(1, 2)[:, at[0]].to(new.dtype)
