"""One SM of the interpreter: the arithmetic of each instruction, without the kernel's optimisations."""

import functools
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernels.megakernel.program.exchange import COPIED, EXCHANGED
from kernels.megakernel.program.instructions import ADD, ATTENTION, DOWN, END, GATE_UP, HEAD, OUT, QKV, ROUTER
from kernels.megakernel.proof.structure import instruction_name, instruction_rows
from kernels.ops.gated import SWIGLUOAI_ALPHA, SWIGLUOAI_LIMIT
from tests.kernels.megakernel.interpreter.attend import attend_to_all, attended, attention
from tests.kernels.megakernel.interpreter.sample import draw_candidates
from tests.kernels.megakernel.interpreter.units import matrix_of_unit
from tests.kernels.megakernel.interpreter.words import (
    FLAG_MASK,
    Floats,
    Words,
    best_candidates,
    bf16,
    bf16_floats,
    candidate_words,
    candidates_of,
    eight_gated,
    eight_normed,
    flag_at,
    floats_of,
    gated_of,
    one_value,
    soft_capped,
    tokens_of,
    two_floats,
    value_of,
)

if TYPE_CHECKING:
    from tests.kernels.megakernel.interpreter.interpret import SimulatedGpu

Steps = Generator[bool, None, Any]


def matrix_of_tiles(values: NDArray[np.uint16]) -> Floats:
    """A row of tiles, in bf16 and in core matrices, as its 16 rows."""
    tiles = values.reshape(-1, 2, 2, 8, 8).transpose(2, 3, 0, 1, 4)  # row half, row, tile, column half, column
    return (tiles.reshape(16, -1).astype(np.uint32) << 16).view(np.float32)


class StreamingMultiprocessor:
    """One block: its instructions, its position in its stream of weights, its copy of the residual."""

    def __init__(self, gpu: "SimulatedGpu", number: int, first: NDArray[np.int64]) -> None:
        self.gpu, self.number, self.token = gpu, number, first
        self.shape, self.layout = gpu.program.shape, gpu.program.layout
        self.everywhere = gpu.program.rank * self.layout.sms + number
        start, arrays = int(gpu.arrays["program_start"][number]), gpu.arrays
        self.table = instruction_rows(arrays["program"][start : start + len(gpu.program.instructions[number])])
        self.residual = np.zeros((self.layout.batch, self.shape.hidden), dtype=np.float32)
        self.step, self.index, self.taken, self.at = 0, 0, 0, "the beginning"
        self.own, self.round = slice(0, 0), 0
        self.routed: tuple[Floats, Floats] | None = None
        self.experts, self.shares = np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)
        self.unpublished: list[tuple[tuple[int, ...], Floats, Floats]] = []

    def run(self) -> Steps:
        """Every token, instruction by instruction."""
        todo: dict[int, Callable[[dict[str, int]], Steps]] = {
            QKV: self._qkv, ATTENTION: functools.partial(attention, self), OUT: self._out, GATE_UP: self._gate_up,
            DOWN: self._down, ADD: self._add, HEAD: self._head, END: self._choose,
            ROUTER: self._router,
        }  # fmt: skip
        for step in range(self.gpu.count):
            self.step = step
            self.taken = 0
            for words in self.table:
                self.index, self.at = words["index"], f"{instruction_name(words)} of token {self.step}"
                yield from todo[words["op"]](words)
                yield True

    def length(self, b: int) -> int:
        """The tokens of a sequence up to the one at hand."""
        return self.gpu.positions[b] + self.step + 1

    # words ------------------------------------------------------------------------------------------------------------

    def flag(self, layer: int) -> np.uint64:
        return flag_at(self.step, layer, self.shape.layers)

    def take(self, buffer: str, at: Any, flag: np.uint64) -> Generator[bool, None, Words]:
        """Waits until all words carry the flag."""
        words = self._copy(buffer, self.number % self.layout.copies)
        while ((words[at] & FLAG_MASK) != flag).any():
            yield False
        return words[at].copy()

    def store(self, buffer: str, at: Any, words: Words) -> None:
        for gpu in self.gpu.group if buffer in EXCHANGED else (self.gpu,):
            for copy in range(self.layout.copies if buffer in COPIED else 1):
                self._copy(buffer, copy, gpu)[at] = words
        self.gpu.stores += 1

    def _copy(self, buffer: str, number: int, gpu: "SimulatedGpu | None" = None) -> Words:
        words, copies = (gpu or self.gpu).words[buffer], self.layout.copies
        length = len(words) // copies
        return words[number * length : (number + 1) * length] if buffer in COPIED else words

    # products ---------------------------------------------------------------------------------------------------------

    def _normed(self, layer: int, after_attention: bool) -> Generator[bool, None, tuple[Floats, Floats]]:
        """The input [batch, hidden] before division by its root mean square, and the factor for the products."""
        if self.layout.sliced:
            count = self.shape.hidden // 8
            at = slice(after_attention * count, (after_attention + 1) * count)
            words = yield from self.take("normed", at, self.flag(layer))
            x = gated_of(words).transpose(1, 0, 2).reshape(self.layout.batch, -1)
            squares = value_of(words[..., 3]).view(np.float32).sum(axis=0)[:, None]
        else:
            yield from self._add_partials(layer, after_attention, slice(0, self.shape.hidden))
            x = bf16(self.residual * self.gpu.arrays["norms"][2 * layer + after_attention])
            squares = (self.residual**2).sum(axis=1, keepdims=True)
        if layer < self.shape.layers and not self.shape.norm_before:
            return x, np.ones_like(squares)
        return x, 1 / np.sqrt(squares / self.shape.hidden + np.float32(self.shape.norm_eps))

    def _add_partials(self, layer: int, after_attention: bool, columns: slice) -> Steps:
        """Adds the partials to this SM's part of the residual; in the first layer the token's embedding replaces it."""
        if not (layer or after_attention):
            self.residual[:, columns] = bf16_floats(self.gpu.arrays["embedding"][self.token])[:, columns]
            return
        buffer, of = ("out_partials", layer) if after_attention else ("down_partials", layer - 1)
        partials = self._partials(buffer, of)
        if self.shape.experts and buffer == "down_partials":
            each = self.layout.tensor_parallel_size * self.layout.down_parts
            partials = partials[: -(-len(self.experts) // self.shape.top_k) * each]
        added = np.zeros_like(self.residual[:, columns]) if self.shape.norm_after else self.residual[:, columns]
        for partial in partials:
            at = partial, slice(None), slice(columns.start // 2, columns.stop // 2)
            words = yield from self.take(buffer, at, self.flag(of))
            added += floats_of(words)
            yield True
        if self.shape.norm_after:
            weight = self.gpu.arrays["norms"][2 * self.shape.layers + 1 + 2 * of + (not after_attention)]
            squares = (added**2).mean(axis=1, keepdims=True)
            self.residual += added * weight / np.sqrt(squares + np.float32(self.shape.norm_eps))

    def _add(self, words: dict[str, int]) -> Steps:
        """Adds to this SM's slice of the residual, and publishes the normed slice for the products."""
        layer, after_attention = words["layer"], bool(words["partial"])
        columns = slice(words["k_tile"] * 16, (words["k_tile"] + words["k_tiles"]) * 16)
        yield from self._add_partials(layer, after_attention, columns)
        residual = self.residual[:, columns].reshape(self.layout.batch, -1, 8).transpose(1, 0, 2)
        weights = self.gpu.arrays["norms"][2 * layer + after_attention, columns].reshape(-1, 1, 8)
        first = (after_attention * self.shape.hidden + columns.start) // 8
        normed = eight_normed(residual * weights, (residual**2).sum(axis=2), self.flag(layer))
        self.store("normed", slice(first, first + len(normed)), normed)

    def _partials(self, buffer: str, layer: int) -> range:
        """The partials of one layer; even and odd layers use different halves of `down_partials`."""
        if buffer == "out_partials":
            return range(self.layout.out_partials)
        return range(layer % 2 * self.layout.down_partials, (layer % 2 + 1) * self.layout.down_partials)

    def _products(self, words: dict[str, int], x: Floats) -> Iterator[tuple[int, Floats]]:
        """Takes the instruction's weights from the stream, unit by unit: (row tile, [batch, 16] products)."""
        offset, form = int(self.gpu.arrays["weight_offset"][self.number]), self.layout.form_of(words["op"])
        k = words["k_tiles"]
        size = form.unit_bytes(k)
        for unit in range(words["units"]):
            begin = offset + self.taken
            self.taken += size
            matrix = matrix_of_unit(self.gpu.arrays["weights"][begin : begin + size], k, form)
            yield words["tile"] + unit, x[:, : k * 16] @ matrix.T

    def _store_rows(self, buffer: str, words: dict[str, int], tile: int, rows: Floats) -> None:
        first = self._partials(buffer, words["layer"])[0] if buffer == "down_partials" else 0
        at = first + words["partial"], slice(None), slice(tile * 8, tile * 8 + 8)
        self.store(buffer, at, two_floats(rows, self.flag(words["layer"])))

    def _qkv(self, words: dict[str, int]) -> Steps:
        layer = words["layer"]
        x, scale = yield from self._normed(layer, after_attention=False)
        for tile, rows in self._products(words, x):
            self._store_rows("qkv", words, tile, rows * scale)
            yield True

    def _out(self, words: dict[str, int]) -> Steps:
        x = yield from attended(self, words) if self.layout.splits else attend_to_all(self, words)
        for tile, rows in self._products(words, x):
            if self.shape.out_bias and words["k_tile"] == 0:
                rows = rows + self.gpu.arrays["out_bias"][words["layer"], tile * 16 : tile * 16 + 16]
            self._store_rows("out_partials", words, tile, rows)
            yield True

    def _router(self, words: dict[str, int]) -> Steps:
        layer, tile = words["layer"], words["tile"]
        x, scale = self.routed = yield from self._normed(layer, after_attention=True)
        for tile, rows in self._products(words, x):
            rows = rows * scale
            if self.shape.expert_bias:
                rows += self.gpu.arrays["router_bias"][layer, tile * 16 : tile * 16 + 16]
            logits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
            self.store("router", (slice(None), slice(tile * 16, tile * 16 + 16)), one_value(logits, self.flag(layer)))
            yield True

    def _route(self, layer: int) -> Steps:
        """The experts that any sequence has chosen, in their order, and each sequence's shares [experts, batch]; of
        equal logits the first experts are chosen, as torch does on a GPU.
        """
        words = yield from self.take("router", slice(None), self.flag(layer))
        logits = value_of(words).view(np.float32)[:, : self.shape.experts]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chosen = np.argsort(-logits, axis=1, kind="stable")[:, : self.shape.top_k]
        kept = np.zeros_like(chances)
        np.put_along_axis(kept, chosen, np.take_along_axis(chances, chosen, axis=1), axis=1)
        kept /= (kept if self.shape.normalised else chances).sum(axis=1, keepdims=True)
        self.experts = np.unique(chosen)
        self.shares = kept[:, self.experts].T

    def _at_work(self, group: int) -> int:
        """How many experts of the group some sequence has chosen."""
        return min(max(len(self.experts) - group * self.shape.top_k, 0), self.shape.top_k)

    def _expert_rows(self, layer: int, slot: int, down: bool, tile: int) -> Floats:
        """16 rows of an expert at work: of gate and up, or of down."""
        stored = self.gpu.arrays["experts"][layer, self.experts[slot]]
        form, wide, narrow = self.layout.expert_form, self.shape.hidden // 16, self.shape.expert_size // 16
        sizes = [k * form.block_bytes // form.tiles // stored.itemsize for k in (wide, narrow)]
        begin = 2 * narrow * sizes[0] + tile * sizes[1] if down else tile * sizes[0]
        unit = stored[begin : begin + sizes[down]]
        return matrix_of_tiles(unit) if form.bits == 16 else matrix_of_unit(unit, (wide, narrow)[down], form)

    def _bias(self, name: str, layer: int, group: int, place: int) -> Floats:
        """The bias of an expert of a group."""
        return bf16_floats(self.gpu.arrays[name][layer, self.experts[group * self.shape.top_k + place]])

    def _activated(self, gate: Floats, up: Floats) -> Floats:
        if self.shape.gate == "swigluoai":
            gate, up = np.minimum(gate, SWIGLUOAI_LIMIT), np.clip(up, -SWIGLUOAI_LIMIT, SWIGLUOAI_LIMIT)
            return gate / (1 + np.exp(-np.float32(SWIGLUOAI_ALPHA) * gate)) * (up + 1)
        gelu = self.shape.gate == "gelu"
        inner = np.float32(1.5957691) * (gate + np.float32(0.044715) * gate**3) if gelu else gate
        return gate / (1 + np.exp(-inner)) * up

    def _experts_gate_up(self, words: dict[str, int]) -> Steps:
        layer, group, units = words["layer"], words["group"], self.shape.expert_size // 8
        if group == 0:
            yield from self._route(layer)
        assert self.routed is not None
        x, scale = self.routed
        tiles = self._at_work(group) * units
        for tile in range(words["tile"], tiles, self.layout.sms)[: words["units"]]:
            place, unit = divmod(tile, units)
            matrix = self._expert_rows(layer, group * self.shape.top_k + place, False, unit)
            rows = x[:, : words["k_tiles"] * 16] @ matrix.T
            gate, up = rows[:, :8] * scale, rows[:, 8:] * scale
            if self.shape.expert_bias:
                bias = self._bias("gate_up_bias", layer, group, place)[8 * unit : 8 * unit + 8]
                gate, up = gate + bias[:, 0], up + bias[:, 1]
            share = self.shares[group * self.shape.top_k + place][:, None]
            gated = np.where(share == 0, 0, self._activated(gate, up) * share)
            at = group * self.shape.top_k * units + tile
            self.store("gated", at, eight_gated(gated.astype(np.float32), self.flag(layer)))
            yield True

    def _experts_down(self, words: dict[str, int]) -> Steps:
        layer, group, each = words["layer"], words["group"], self.shape.expert_size // 16
        if not self._at_work(group):
            return
        first, count = words["k_tile"], min(words["k_tiles"], self._at_work(group) * each - words["k_tile"])
        count = max(count, 0)
        begin = 2 * (group * self.shape.top_k * each + first)
        taken = yield from self.take("gated", slice(begin, begin + 2 * count), self.flag(layer))
        x = gated_of(taken).transpose(1, 0, 2).reshape(self.layout.batch, count * 16)
        for tile in range(words["tile"], words["tile"] + words["units"]):
            rows = np.zeros((self.layout.batch, 16), dtype=np.float32)
            for column in range(count):
                place, k = divmod(first + column, each)
                unit = self._expert_rows(layer, group * self.shape.top_k + place, True, tile)
                matrix = unit[:, k * 16 : k * 16 + 16]
                rows += x[:, column * 16 : column * 16 + 16] @ matrix.T
            if self.shape.expert_bias and first == 0:
                for place in range(self._at_work(group)):
                    bias = self._bias("down_bias", layer, group, place)[tile * 16 : tile * 16 + 16]
                    rows += self.shares[group * self.shape.top_k + place][:, None] * bias
            self._store_rows("down_partials", words, tile, rows)
            yield True

    def _gate_up(self, words: dict[str, int]) -> Steps:
        if self.shape.experts:
            yield from self._experts_gate_up(words)
            return
        layer = words["layer"]
        x, scale = yield from self._normed(layer, after_attention=True)
        for tile, rows in self._products(words, x):  # 8 rows of gate, and the 8 matching rows of up
            gated = self._activated(rows[:, :8] * scale, rows[:, 8:] * scale)
            self.store("gated", tile, eight_gated(gated, self.flag(layer)))
            yield True

    def _down(self, words: dict[str, int]) -> Steps:
        if self.shape.experts:
            yield from self._experts_down(words)
            return
        first, count = words["k_tile"] * 2, words["k_tiles"] * 2
        taken = yield from self.take("gated", slice(first, first + count), self.flag(words["layer"]))
        x = gated_of(taken).transpose(1, 0, 2).reshape(self.layout.batch, count * 8)
        for tile, rows in self._products(words, x):
            self._store_rows("down_partials", words, tile, rows)
            yield True

    def _head(self, words: dict[str, int]) -> Steps:
        """This SM's share of the vocabulary: its best logit of each sequence becomes a candidate."""
        layer, vocab = words["layer"], self.shape.vocab
        x, scale = yield from self._normed(layer, after_attention=False)
        self._publish()
        best = np.zeros(self.layout.batch, dtype=np.uint64)
        for tile, rows in self._products(words, x):
            ids = np.arange(tile * 16, min(tile * 16 + 16, vocab), dtype=np.uint32)
            logits = soft_capped(rows * scale, self.shape.logit_cap)[:, : len(ids)]
            self.gpu.logits[self.step, :, ids] = logits.T
            best = np.maximum(best, candidates_of(logits, ids).max(axis=1))
        self.own = slice(words["tile"] * 16, min((words["tile"] + words["units"]) * 16, vocab))
        self.store("candidates", self.everywhere, candidate_words(best, self.flag(layer)))

    def _publish(self) -> None:
        """The fence in the head: after it, other SMs may read the keys and values of this token."""
        for at, key, value in self.unpublished:
            self.gpu.keys[at], self.gpu.values[at] = key, value
        self.unpublished.clear()

    def _choose(self, words: dict[str, int]) -> Steps:
        """Every SM reads all candidates and finds the same next token: the largest logit, the smaller id if equal."""
        pairs = yield from self.take("candidates", slice(None), self.flag(words["layer"]))
        best = best_candidates(pairs)
        if not all(how.greedy for how in self.gpu.sampling):
            best = yield from draw_candidates(self, best)
        chosen = tokens_of(best).astype(np.int64)
        if self.number == 0:
            self.gpu.tokens[self.step] = chosen
        self.token = chosen if self.gpu.forced is None else self.gpu.forced[self.step + 1]
