"""One forward pass of a divided model: the passes of all its ranks, half a layer at a time, driven by one process.

    rank 0   attention ─► partial ──┬─► sum ─► MLP ─► partial ──┬─► sum ─► … ─► head
                                    ╳                           ╳            every partial to every rank
    rank 1   attention ─► partial ──┴─► sum ─► MLP ─► partial ──┴─► sum ─► … ─► head

The copies go from one GPU's memory to another's, all directions at once. Every rank adds the same partials in the same
order, rank 0's first, so that all ranks have the same residual stream and choose the same token.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.cuda.current import current
from kernels.engine import decoder
from kernels.engine.bound_variants import BoundVariants
from kernels.engine.passes import LayerInput, Pass
from kernels.engine.prompts import Bucket, PromptReader
from kernels.engine.state import State


class RankPart(NamedTuple):
    """What one rank's passes work with, all on its device. Its key-value cache holds its own heads."""

    model: decoder.Decoder
    variants: BoundVariants
    state: State

    @property
    def device(self) -> torch.device:
        return self.state.position.device


class AllReduce:
    """Adds the partials [m, hidden] of all ranks, m up to `rows`, to the residual stream of every rank."""

    def __init__(self, devices: Sequence[torch.device], rows: int, like: Tensor) -> None:
        """`like` [.., hidden] has the partials' dtype."""
        size = 1 + len(devices), rows, like.shape[-1]
        self._devices, self._slots = devices, [like.new_empty(size, device=device) for device in devices]
        self._links = {
            (sender, receiver): (torch.cuda.Stream(devices[sender]), torch.cuda.Stream(devices[receiver]))
            for sender in range(len(devices))
            for receiver in range(len(devices))
            if devices[sender] != devices[receiver]
        }

    def summed(self, streams: Sequence[Tensor], partials: Sequence[Tensor]) -> list[Tensor]:
        """Each rank's stream with all partials, added in float32 and rounded once; in order with all else on the
        devices' current streams.
        """
        m = len(partials[0])
        for receiver, slots in enumerate(self._slots):
            slots[0, :m].copy_(streams[receiver])
            for sender, partial in enumerate(partials):
                self._send(sender, receiver, partial, slots[1 + sender, :m])
        for (sender, receiver), (leaving, arriving) in self._links.items():
            torch.cuda.current_stream(self._devices[sender]).wait_stream(leaving)
            torch.cuda.current_stream(self._devices[receiver]).wait_stream(arriving)
        return [slots[:, :m].sum(0) for slots in self._slots]

    def _send(self, sender: int, receiver: int, partial: Tensor, slot: Tensor) -> None:
        if (sender, receiver) not in self._links:
            slot.copy_(partial)
            return
        leaving, arriving = self._links[sender, receiver]
        leaving.wait_stream(torch.cuda.current_stream(self._devices[sender]))
        arriving.wait_stream(torch.cuda.current_stream(self._devices[receiver]))
        with torch.cuda.stream(leaving), torch.cuda.stream(arriving):
            slot.copy_(partial)  # between GPUs torch lets both current streams wait for the copy


class DividedPass:
    """As `Pass`, over all ranks. Ids, token, position and what `run` returns are the first rank's."""

    def __init__(self, ranks: Sequence[RankPart], queries: int, *, whole: bool = True) -> None:
        self.queries, self.state = queries, ranks[0].state
        self._devices, self._passes = [rank.device for rank in ranks], []
        for number, rank in enumerate(ranks):
            with current(rank.device):
                self._passes.append(Pass(*rank, queries, whole=whole, rank=number))
        self.head = self._passes[0].head
        self._exchange = AllReduce(self._devices, self.state.batch * queries, ranks[0].model.embedding)

    def run(self, ids: Tensor, length: Tensor | None = None) -> Tensor:
        """See `Pass.run`. What other GPUs do, each on its current stream, follows the first one's current stream, which
        then waits for it.
        """
        self._order(ends=False)
        inputs = []
        for each, device in zip(self._passes, self._devices, strict=True):
            if each.state is not self.state:
                each.state.position.copy_(self.state.position)
            with current(device):
                inputs.append(each.begin(ids.to(device), None if length is None else length.to(device)))
        for halves in zip(*(each.halves for each in self._passes), strict=True):
            for half, given, device in zip(halves, inputs, self._devices, strict=True):
                with current(device):
                    half(given)
            sums = self._exchange.summed([given.stream.x for given in inputs], [_partial(given) for given in inputs])
            for given, x in zip(inputs, sums, strict=True):
                given.stream.x, given.stream.delta = x, None
        found = self._passes[0].end(inputs[0], length)
        self._order(ends=True)
        return found

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


class DividedPrompts(PromptReader):
    """As `PromptReader`, over all ranks: one graph for each bucket."""

    def __init__(self, ranks: Sequence[RankPart], *, whole: bool) -> None:
        super().__init__(*ranks[0], whole=whole)
        self._ranks = ranks

    def _bucket(self, size: int) -> Bucket:
        devices = [rank.device for rank in self._ranks]
        one_pass = DividedPass(self._ranks, size, whole=self._whole)
        return Bucket(one_pass, self._length, devices if devices[0].type == "cuda" else ())
