"""One forward pass of a sharded model: the passes of all its ranks, half a layer at a time, driven by one process.

    rank 0   attention ─► partial ──┬─► sum ─► MLP ─► partial ──┬─► sum ─► … ─► head
                                    ╳                           ╳            every partial to every rank
    rank 1   attention ─► partial ──┴─► sum ─► MLP ─► partial ──┴─► sum ─► … ─► head

Every rank adds the same partials in the same order, rank 0's first, so that all ranks have the same residual stream and
choose the same token (`kernels.model.all_reduce`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.model import decoder
from kernels.model.all_reduce import AllReduce, all_reduce
from kernels.model.bound_variants import BoundVariants
from kernels.model.passes import Pass
from kernels.model.products import Stream
from kernels.model.prompts import Bucket, PromptReader
from kernels.model.state import State


class RankShard(NamedTuple):
    """What one rank's passes work with, all on its device. Its key-value cache holds its own heads."""

    model: decoder.Decoder
    variants: BoundVariants
    state: State

    @property
    def device(self) -> torch.device:
        return self.state.position.device


class HasStream(Protocol):
    """What each half of a layer takes: the residual stream with whatever else the half needs."""

    stream: Stream


def run_halves(
    halves: Sequence[Sequence[Callable[..., None]]],
    inputs: Sequence[HasStream],
    devices: Sequence[torch.device],
    all_reduce: AllReduce,
) -> None:
    """Runs all layers, `halves[r]` on `devices[r]`; behind each half ranks add the partial sums in `delta`."""
    for of_ranks in zip(*halves, strict=True):
        for half, given, device in zip(of_ranks, inputs, devices, strict=True):
            with device_guard(device):
                half(given)
        sums = all_reduce.reduce([given.stream.x for given in inputs], [_partial(given.stream) for given in inputs])
        for given, x in zip(inputs, sums, strict=True):
            given.stream.x, given.stream.delta = x, None


def follow(devices: Sequence[torch.device]) -> None:
    """Makes what comes next on the other GPUs' current streams wait for the first one's current stream."""
    if devices[0].type == "cuda":
        first = torch.cuda.current_stream(devices[0])
        for device in devices[1:]:
            torch.cuda.current_stream(device).wait_stream(first)


def join(devices: Sequence[torch.device]) -> None:
    """Makes what comes next on the first GPU's current stream wait for the other GPUs' current streams."""
    if devices[0].type == "cuda":
        first = torch.cuda.current_stream(devices[0])
        for device in devices[1:]:
            first.wait_stream(torch.cuda.current_stream(device))


class TensorParallelPass:
    """As `Pass`, over all ranks. Ids, token, position and what `run` returns are the first rank's."""

    def __init__(self, ranks: Sequence[RankShard], queries: int, *, whole: bool = True) -> None:
        self.queries, self.state = queries, ranks[0].state
        self._devices, self._passes = [rank.device for rank in ranks], []
        for number, rank in enumerate(ranks):
            with device_guard(rank.device):
                self._passes.append(Pass(*rank, queries, whole=whole, rank=number))
        self.head = self._passes[0].head
        rows = self.state.batch * queries
        self.all_reduce: AllReduce = all_reduce(self._devices, rows, ranks[0].model.embedding)

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor:
        """See `Pass.run`. Other GPUs' work is ordered with the first one's current stream, before and behind."""
        follow(self._devices)
        inputs = []
        for rank, (own, device) in enumerate(zip(self._passes, self._devices, strict=True)):
            with device_guard(device):
                if rank:
                    own.state.position.copy_(self.all_reduce.broadcast(rank, self.state.position))
                inputs.append(own.begin(*self._given(rank, ids, length)))
        run_halves([rank_pass.halves for rank_pass in self._passes], inputs, self._devices, self.all_reduce)
        hidden = self._passes[0].end(inputs[0], length)
        join(self._devices)
        return hidden

    def _given(self, rank: int, ids: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if not rank:
            return ids, length
        return self.all_reduce.broadcast(rank, ids), None if length is None else self.all_reduce.broadcast(rank, length)


def _partial(stream: Stream) -> Tensor:
    assert stream.delta is not None
    return stream.delta


class TensorParallelPrompts(PromptReader):
    """As `PromptReader`, over all ranks: one graph for each bucket."""

    def __init__(self, ranks: Sequence[RankShard], *, whole: bool) -> None:
        super().__init__(*ranks[0], whole=whole)
        self._ranks = ranks
        self._all_reduces: list[AllReduce] = []

    def _bucket(self, size: int) -> Bucket:
        devices = [rank.device for rank in self._ranks]
        one_pass = TensorParallelPass(self._ranks, size, whole=self._whole)
        self._all_reduces.append(one_pass.all_reduce)
        return Bucket(one_pass, self._length, devices if devices[0].type == "cuda" else ())

    def check(self) -> None:
        for sums in self._all_reduces:
            sums.check()
