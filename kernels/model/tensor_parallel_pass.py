"""One forward pass of a divided model: the passes of all its ranks, half a layer at a time, driven by one process.

    rank 0   attention ─► partial ──┬─► sum ─► MLP ─► partial ──┬─► sum ─► … ─► head
                                    ╳                           ╳            every partial to every rank
    rank 1   attention ─► partial ──┴─► sum ─► MLP ─► partial ──┴─► sum ─► … ─► head

Every rank adds the same partials in the same order, rank 0's first, so that all ranks have the same residual stream and
choose the same token (`kernels.model.all_reduce`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.cuda.current import current
from kernels.model import decoder
from kernels.model.all_reduce import AllReduce, all_reduce
from kernels.model.bound_variants import BoundVariants
from kernels.model.passes import LayerInput, Pass
from kernels.model.prompts import Bucket, PromptReader
from kernels.model.state import State


class RankPart(NamedTuple):
    """What one rank's passes work with, all on its device. Its key-value cache holds its own heads."""

    model: decoder.Decoder
    variants: BoundVariants
    state: State

    @property
    def device(self) -> torch.device:
        return self.state.position.device


class TensorParallelPass:
    """As `Pass`, over all ranks. Ids, token, position and what `run` returns are the first rank's."""

    def __init__(self, ranks: Sequence[RankPart], queries: int, *, whole: bool = True) -> None:
        self.queries, self.state = queries, ranks[0].state
        self._devices, self._passes = [rank.device for rank in ranks], []
        for number, rank in enumerate(ranks):
            with current(rank.device):
                self._passes.append(Pass(*rank, queries, whole=whole, rank=number))
        self.head = self._passes[0].head
        rows = self.state.batch * queries
        self.exchange: AllReduce = all_reduce(self._devices, rows, ranks[0].model.embedding)

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor:
        """See `Pass.run`. What other GPUs do, each on its current stream, follows the first one's current stream, which
        then waits for it.
        """
        self._order(ends=False)
        inputs = []
        for rank, (own, device) in enumerate(zip(self._passes, self._devices, strict=True)):
            with current(device):
                if rank:
                    own.state.position.copy_(self.exchange.fetched(rank, self.state.position))
                inputs.append(own.begin(*self._given(rank, ids, length)))
        for halves in zip(*(rank_pass.halves for rank_pass in self._passes), strict=True):
            for half, given, device in zip(halves, inputs, self._devices, strict=True):
                with current(device):
                    half(given)
            sums = self.exchange.summed([given.stream.x for given in inputs], [_partial(given) for given in inputs])
            for given, x in zip(inputs, sums, strict=True):
                given.stream.x, given.stream.delta = x, None
        hidden = self._passes[0].end(inputs[0], length)
        self._order(ends=True)
        return hidden

    def _given(self, rank: int, ids: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if not rank:
            return ids, length
        return self.exchange.fetched(rank, ids), None if length is None else self.exchange.fetched(rank, length)

    def _order(self, ends: bool) -> None:
        if self._devices[0].type != "cuda":
            return
        first = torch.cuda.current_stream(self._devices[0])
        for device in self._devices[1:]:
            other = torch.cuda.current_stream(device)
            before, after = (other, first) if ends else (first, other)
            after.wait_stream(before)


def _partial(given: LayerInput) -> Tensor:
    assert given.stream.delta is not None
    return given.stream.delta


class TensorParallelPrompts(PromptReader):
    """As `PromptReader`, over all ranks: one graph for each bucket."""

    def __init__(self, ranks: Sequence[RankPart], *, whole: bool) -> None:
        super().__init__(*ranks[0], whole=whole)
        self._ranks = ranks
        self._exchanges: list[AllReduce] = []

    def _bucket(self, size: int) -> Bucket:
        devices = [rank.device for rank in self._ranks]
        one_pass = TensorParallelPass(self._ranks, size, whole=self._whole)
        self._exchanges.append(one_pass.exchange)
        return Bucket(one_pass, self._length, devices if devices[0].type == "cuda" else ())

    def check(self) -> None:
        for exchange in self._exchanges:
            exchange.check()
