"""What a packed pass is told of its rows: one block of memory on the host, copied to the device by one copy."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.ops.sampling import GREEDY, Sampling
from kernels.server.execution.shapes import PassShape
from kernels.server.scheduler.pages import SCRATCH
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step

ALIGNED = 16
FLOAT, SHORT, LONG = np.float32, np.int32, np.int64


class Fields(NamedTuple):
    """The fields of a pass, as arrays of the host or as tensors of the device. Rows are those of `PassShape.rows`: the
    decodes, then the blocks; `sampled` rows are those whose next token is chosen: the decodes, then the chunks.

    `given` [rows] ids, `source` [rows] the slot whose last token a row takes instead (-1: none), `position` [rows],
    `page` [rows, 1] and `offset` [rows] where the row's key goes. `lengths` [decodes] and `tables` [decodes, pages of a
    sequence] of the decodes' caches, `block_lengths` and `block_tables` of the blocks'. Of each sampled row
    `end` [sampled], its index, and `target` [sampled], the slot of its token; then its sampling: `temperature`,
    `top_p`, `top_k`, `seed`, `stream` and `place`, the token's place in its sequence.
    """

    given: torch.Tensor
    source: torch.Tensor
    position: torch.Tensor
    page: torch.Tensor
    offset: torch.Tensor
    lengths: torch.Tensor
    tables: torch.Tensor
    block_lengths: torch.Tensor
    block_tables: torch.Tensor
    end: torch.Tensor
    target: torch.Tensor
    temperature: torch.Tensor
    top_p: torch.Tensor
    top_k: torch.Tensor
    seed: torch.Tensor
    stream: torch.Tensor
    place: torch.Tensor


def layout(shape: PassShape, pages: int) -> dict[str, tuple[tuple[int, ...], type]]:
    """Shape and dtype of each field; `pages` are those of a sequence."""
    rows, sampled = shape.rows, shape.sampled
    by_row = {name: ((rows,), LONG) for name in ("given", "source", "position", "offset")}
    by_sampled = {name: ((sampled,), LONG) for name in ("end", "target", "top_k", "seed", "stream", "place")}
    fields: dict[str, tuple[tuple[int, ...], type]] = {
        **by_row,
        "page": ((rows, 1), SHORT),
        "lengths": ((shape.decodes,), SHORT),
        "tables": ((shape.decodes, pages), SHORT),
        "block_lengths": ((shape.blocks,), SHORT),
        "block_tables": ((shape.blocks, pages), SHORT),
        **by_sampled,
        "temperature": ((sampled,), FLOAT),
        "top_p": ((sampled,), FLOAT),
    }
    return {name: fields[name] for name in Fields._fields}


def views(memory: torch.Tensor, shape: PassShape, pages: int) -> Fields:
    """The fields within a tensor of bytes of `size`."""
    at, fields = 0, {}
    for name, (extent, dtype) in layout(shape, pages).items():
        length = int(np.prod(extent)) * np.dtype(dtype).itemsize
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        fields[name] = memory[at : at + length].view(kind).view(extent)
        at += -(-length // ALIGNED) * ALIGNED
    return Fields(**fields)


def size(shape: PassShape, pages: int) -> int:
    """The bytes of all fields."""
    lengths = (int(np.prod(extent)) * np.dtype(dtype).itemsize for extent, dtype in layout(shape, pages).values())
    return sum(-(-length // ALIGNED) * ALIGNED for length in lengths)


class Sequences:
    """What the host keeps of each slot: its page table and how its tokens are drawn."""

    def __init__(self, slots: int, pages: int, page_size: int) -> None:
        self.page_size, self.spare = page_size, slots
        self.tables: NDArray[np.int32] = np.full((slots + 1, pages), SCRATCH, np.int32)
        self.sampling = {
            name: np.zeros(slots + 1, dtype)
            for name, dtype in (
                ("temperature", FLOAT), ("top_p", FLOAT), ("top_k", LONG), ("seed", LONG), ("stream", LONG)
            )
        }  # fmt: skip
        self._owner: list[tuple[Request, int] | None] = [None] * (slots + 1)
        self._filled = [0] * (slots + 1)

    def update(self, request: Request) -> int:
        """Brings the request's slot up to date and returns it."""
        slot, epoch = request.slot, request.admitted
        if self._owner[slot] != (request, epoch):
            self._owner[slot], self._filled[slot] = (request, epoch), 0
            self.tables[slot] = SCRATCH
            how = request.sampling
            for name, values in self.sampling.items():
                value = getattr(how, name)
                values[slot] = value - (1 << 64) if name == "seed" and value >= 1 << 63 else value
        filled, pages = self._filled[slot], request.pages
        if filled < len(pages):
            self.tables[slot, filled : len(pages)] = pages[filled:]
            self._filled[slot] = len(pages)
        return slot

    def pretend(
        self, shape: PassShape, length: int, pages: int, fields: "dict[str, NDArray]", sampling: Sampling = GREEDY
    ) -> None:
        """Fills a pass whose decodes are sequences of `length` tokens on any of `pages` pages, with `sampling`, and
        whose blocks end such sequences, to time it. The newest tokens are written to the scratch page, so nothing that
        the pages hold is lost.
        """
        self.fill(Step(), shape, fields)
        newest, size = length - 1, self.page_size
        read = newest // size  # whole pages before the one that is written
        for name in ("tables", "block_tables"):
            table = fields[name][:, :read]
            table[:] = 1 + np.arange(table.size, dtype=SHORT).reshape(table.shape) % (pages - 1)
        fields["position"][:], fields["lengths"][:], fields["block_lengths"][:] = newest, length, length
        fields["offset"][: shape.decodes] = newest % size
        for name in self.sampling:
            fields[name][:] = getattr(sampling, name)

    def fill(self, step: Step, shape: PassShape, fields: "dict[str, NDArray]") -> None:
        """Writes the fields of a step. Padding uses the scratch page, and its tokens go to the spare slot."""
        rows, sampled, spare, size = shape.rows, shape.sampled, self.spare, self.page_size
        slot_of = np.full(rows, spare, LONG)
        target = np.full(sampled, spare, LONG)
        for name in ("given", "position", "lengths", "block_lengths", "end", "place"):
            fields[name].fill(0)
        fields["source"].fill(-1)
        for row, part in enumerate(step.decodes):
            slot_of[row] = self.update(part.request)
            fields["position"][row] = part.start
            self._choose(part, row, row, target, fields)
            if part.start < len(part.request.ids):
                fields["given"][row] = part.request.ids[part.start]
            else:
                fields["source"][row] = slot_of[row]
        row, block = shape.decodes, 0
        for index, part in enumerate(step.prefill_chunks, shape.decodes):
            slot_of[row : row + part.tokens] = slot = self.update(part.request)
            end = part.start + part.tokens
            fields["given"][row : row + part.tokens] = part.request.ids[part.start : end]
            fields["position"][row : row + part.tokens] = np.arange(part.start, end)
            self._choose(part, index, row + part.tokens - 1, target, fields)
            blocks = -(-part.tokens // shape.block)
            ends = part.start + shape.block * np.arange(1, blocks + 1)
            fields["block_lengths"][block : block + blocks] = ends
            fields["block_tables"][block : block + blocks] = self.tables[slot]
            row, block = row + blocks * shape.block, block + blocks
        decodes = len(step.decodes)
        fields["block_tables"][block:] = SCRATCH
        fields["tables"][:] = self.tables[slot_of[: shape.decodes]]
        fields["lengths"][:decodes] = fields["position"][:decodes] + 1
        at = fields["position"]
        fields["page"][:, 0] = self.tables[slot_of, at // size]
        np.remainder(at, size, out=fields["offset"])
        fields["target"][:] = target
        for name, values in self.sampling.items():
            fields[name][:] = values[target]

    @staticmethod
    def _choose(part: ScheduledTokens, index: int, row: int, target: NDArray, fields: "dict[str, NDArray]") -> None:
        fields["end"][index], fields["place"][index] = row, part.place
        if part.samples:
            target[index] = part.request.slot
