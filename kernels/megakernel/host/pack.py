"""Weights in the order in which the megakernel reads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from kernels.gemm.hopper_tiles import interleave_gate_up
from kernels.megakernel.program import Program, WeightSection
from kernels.megakernel.program.instructions import DOWN, GATE_UP, HEAD, OUT, QKV, ROUTER
from kernels.megakernel.program.weights import (
    ALIGNMENT,
    CODES_BYTES,
    FORMATS,
    GROUP_TILES,
    MXFP4,
    ROW_SCALES,
    Format,
    nvfp4_mix,
)
from kernels.model.expert_tiles import interleave_units
from kernels.model.experts import experts_of
from kernels.quant.formats import FP8_LAYERS, INT4, head_precision

if TYPE_CHECKING:
    import torch

    from kernels.model.decoder import Decoder
    from kernels.model.layer_weights import Weights
    from kernels.model.rounding import RoundedWeights
    from kernels.quant.quantised_matrix import QuantisedMatrix


def fragments(weight: "torch.Tensor") -> "torch.Tensor":
    """A matrix [rows, columns] of values or codes as matrix-unit fragments [rows / 16, columns / 16, 256].

    Lane 4g + t of a fragment holds 8 values: rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9.
    """
    rows, columns = weight.shape
    split = weight.view(rows // 16, 2, 8, columns // 16, 2, 4, 2)  # tile, row half, g, k tile, column half, t, pair
    return split.permute(0, 3, 2, 5, 4, 1, 6).reshape(rows // 16, columns // 16, 256)


def matrices(w: "Weights") -> Iterator[tuple[int, "torch.Tensor"]]:
    """The matrices of a layer by product; of experts only the router's, its rows filled up to a multiple of 16."""
    import torch

    from kernels.model.experts import Experts

    yield QKV, w.qkv[0]
    yield OUT, w.o
    if isinstance(w.mlp, Experts):
        yield ROUTER, torch.nn.functional.pad(w.mlp.router, (0, 0, 0, -len(w.mlp.router) % 16))
        return
    yield GATE_UP, interleave_gate_up(w.mlp.gate_up[0])
    yield DOWN, w.mlp.down


def streams(weight: "QuantisedMatrix", form: Format, k_tile: int, k_tiles: int) -> "torch.Tensor":
    """Column tiles [k_tile, + k_tiles) of a matrix as its units lie in the stream, uint8 [row tiles, unit bytes].

    `weight.codes` [rows, columns] are bf16 values or the codes of `form`, rows a multiple of 16. Of integers `k_tile`
    begins a group; MXFP4 is of whole rows, of a multiple of 64 columns. Raises ValueError where columns that share a
    scale in `form` have different ones.
    """
    import torch

    from kernels.quant.quantised_matrix import MIDDLE

    def cut(tiles: torch.Tensor) -> torch.Tensor:
        part = tiles[:, k_tile : k_tile + k_tiles]
        return torch.nn.functional.pad(part, (0, 0, 0, -k_tiles % form.tiles))

    tiles = cut(fragments(weight.codes ^ MIDDLE if form.zeros else weight.codes))
    count, n = len(tiles), GROUP_TILES if form.integers else form.tiles
    lanes = tiles.view(count, -1, n, 8, 4 // n, n, 8).transpose(
        2, 3
    )  # row tile, block or group, g, tile, quarter, product, code
    words = _WORDS[form.name](lanes).contiguous()
    if form.integers:  # a lane has its share of all groups of a block in one place
        words = words.view(count, -1, form.tiles // n, 32, words[0, 0, 0, 0, 0].numel()).transpose(2, 3).contiguous()
    blocks = words.view(torch.uint8).reshape(count, -1, CODES_BYTES)
    if form.integers and weight.block_scales is not None:  # row tile, row half, g, group
        kinds = [weight.block_scales] if weight.zeros is None else [weight.block_scales, weight.zeros.half()]
        parts = [_scales_of(kind[:, k_tile // n : -(-(k_tile + k_tiles) // n)], form) for kind in kinds]
        by_row = torch.stack(parts, dim=3).view(torch.uint8)  # row tile, group, g, scale and zero, row half
        blocks = torch.cat([blocks, by_row.reshape(count, -1, form.block_scales)], dim=2)
    elif weight.block_scales is not None:  # row tile, row half, g, column tile
        scales = weight.block_scales.view(count, 2, 8, -1).permute(0, 3, 1, 2).reshape(count, -1, 16)
        scales = scales if form.read_in_place else cut(scales)
        by_lane = scales.view(count, -1, form.block_scales // ROW_SCALES, 2, 8).permute(0, 1, 4, 2, 3)
        blocks = torch.cat([blocks, by_lane.reshape(count, -1, form.block_scales)], dim=2)
    header = weight.row_scales.view(count, -1).view(torch.uint8)[:, : form.header]
    parts = [part for chunk in blocks.split(form.chunk_blocks, dim=1) for part in (header, chunk.flatten(1))]
    return torch.cat(parts, dim=1)


def _scales_of(groups: "torch.Tensor", form: Format) -> "torch.Tensor":
    """float16 [rows, groups of 32 columns] as [row tiles, what shares a scale, 8, 2]: of rows g and g + 8."""
    import torch

    from kernels.quant.quantised_matrix import in_pairs

    wide = form.scaled // GROUP_TILES
    if wide > 1 and not in_pairs(groups):
        raise ValueError(f"weight: columns that share a scale in {form.name} have different ones")
    groups_of_units = groups[:, ::wide]
    groups_of_units = torch.nn.functional.pad(
        groups_of_units, (0, -groups_of_units.shape[1] % (form.tiles // form.scaled))
    )
    return groups_of_units.view(len(groups_of_units) // 16, 2, 8, -1).permute(0, 3, 2, 1).contiguous()


def _bf16_words(values: "torch.Tensor") -> "torch.Tensor":
    import torch

    return values.to(torch.bfloat16)


def _int8_words(codes: "torch.Tensor") -> "torch.Tensor":
    """[..., 8] codes as [..., 2] words: four of row g, then those of row g + 8, the first in the lowest byte."""
    return _fp8_words(codes.unflatten(-1, (2, 2, 2)).transpose(-3, -2).flatten(-3))  # column half, row half, pair


def _int4_words(codes: "torch.Tensor") -> "torch.Tensor":
    """[..., 2, 8] codes as [..., 2] words: in a byte a code of the first product's four below one of the second's."""
    import torch

    by_row = codes.unflatten(-1, (2, 2, 2)).transpose(-3, -2).flatten(-2)  # product, row half, column half and pair
    return (by_row.select(-3, 0) & 15 | by_row.select(-3, 1) << 4).contiguous().view(torch.int32)


def _fp8_words(codes: "torch.Tensor") -> "torch.Tensor":
    """[..., 8] e4m3 codes as [..., 2] words, the first in the lowest byte."""
    import torch

    return codes.contiguous().view(torch.int32)


def _nvfp4_words(codes: "torch.Tensor") -> "torch.Tensor":
    """[..., 8] e2m1 codes as [..., 1] word; the inverse of `weights.nvfp4_codes`."""
    import torch

    c = codes.to(torch.int32)
    word = torch.zeros_like(c[..., :1])
    for at, mixed in enumerate(nvfp4_mix()):
        signed = mixed - (mixed >> 31 << 32)
        word ^= (c[..., at // 4, None] >> at % 4 & 1) * signed
    return word


_WORDS = {
    "bf16": _bf16_words,
    "int8": _int8_words,
    **dict.fromkeys(INT4, _int4_words),
    **dict.fromkeys(("fp8", FP8_LAYERS), _fp8_words),
    "nvfp4": _nvfp4_words,
    "mxfp4": _nvfp4_words,
}


def quantise(weight: "torch.Tensor", weights: str) -> "QuantisedMatrix":
    """A matrix in a precision of `FORMATS`, or MXFP4; codes of bf16 are values. Raises ValueError where not finite."""
    import torch

    from kernels.quant.mxfp4 import mxfp4_blocks
    from kernels.quant.quantised_matrix import QUANTISERS, QuantisedMatrix

    if weights in FORMATS and weights != "bf16":
        return QUANTISERS[weights](weight)
    ones = torch.ones(len(weight), device=weight.device)
    if weights == "bf16":
        return QuantisedMatrix(weight, ones)
    codes, scales = mxfp4_blocks(weight)
    if int(scales.max()) > MAX_SCALE:
        raise ValueError("weight: it holds numbers too large for the megakernel's mxfp4")
    return QuantisedMatrix(codes, ones, scales)


def encode_matrices(
    model: "Decoder", weights: str, rounded: "RoundedWeights | None"
) -> Iterator[tuple[int, int, "QuantisedMatrix"]]:
    """(product, layer, codes) of every matrix, the head's rows a multiple of 16; `rounded`, or to nearest."""
    import torch

    head, layers = model.lm_head, len(model.layers)
    missing = -len(head) % 16
    for layer, layer_weights in enumerate(model.layers if rounded is None else ()):
        for matrix, weight in matrices(layer_weights):
            yield matrix, layer, quantise(weight, weights)
    for layer, layer_codes in enumerate(() if rounded is None else rounded.layers):
        both = layer_codes["gate_up"]
        tiles = torch.arange(len(both.codes), device=head.device).view(2, -1, 8).transpose(0, 1).flatten()
        yield QKV, layer, layer_codes["qkv"]
        yield OUT, layer, layer_codes["o"]
        yield GATE_UP, layer, both.rows(tiles)
        yield DOWN, layer, layer_codes["down"]
    if rounded is None or rounded.lm_head is None:
        padded = torch.nn.functional.pad(head, (0, 0, 0, missing)) if missing else head
        yield HEAD, layers, quantise(padded, head_precision(weights) or "bf16")
        return
    filled = rounded.lm_head
    if missing:
        filled = filled.rows(torch.arange(len(head) + missing, device=head.device).clamp(max=len(head) - 1))
        filled.codes[len(head) :] = 0
    yield HEAD, layers, filled


_IN_MXFP4: "WeakKeyDictionary[Any, ref[torch.Tensor]]" = WeakKeyDictionary()
"""The experts in MXFP4 of each model that some launch has."""
PACKED_TOGETHER = 4
"""Experts whose codes are made at the same time: of gpt-oss-20b that takes about a GB."""
MAX_SCALE = 135
"""Of MXFP4: the kernel adds 119 to a scale, the exponent of a bf16."""


def experts_in_mxfp4(model: Any) -> "torch.Tensor":
    """A transformers model's experts in MXFP4, uint8 [layers, experts, bytes]: of each expert its units of gate and up,
    then those of down. All launches share them while one of them keeps them. Raises ValueError where a weight is not
    finite or too large.
    """
    import torch

    reference = _IN_MXFP4.get(model)
    if reference is not None and (shared := reference()) is not None:
        return shared
    packed: torch.Tensor | None = None
    for layer, decoder_layer in enumerate(model.model.layers):
        w = experts_of(model.config, decoder_layer.mlp)
        both = torch.cat([_units_in_mxfp4(matrices) for matrices in (interleave_units(w), w.down)], dim=1)
        if packed is None:
            packed = torch.empty(len(model.model.layers), *both.shape, dtype=torch.uint8, device=both.device)
        packed[layer] = both
    assert packed is not None
    _IN_MXFP4[model] = ref(packed)
    return packed


def _units_in_mxfp4(matrices: "torch.Tensor") -> "torch.Tensor":
    """Matrices [experts, rows, columns] as units in MXFP4, uint8 [experts, bytes]."""
    import torch

    def units(few: torch.Tensor) -> torch.Tensor:
        own = quantise(few.flatten(0, 1), MXFP4.name)
        return streams(own, MXFP4, 0, few.shape[2] // 16).view(len(few), -1)

    return torch.cat([units(few) for few in matrices.detach().split(PACKED_TOGETHER)])


def pack(
    model: "Decoder", program: Program, rounded: "RoundedWeights | None" = None
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """A rank's stream of weights, uint8, and where each SM's begin, int64 [sms + 1]. See `encode_matrices`."""
    import torch

    sizes, form_of = program.stream_bytes(), program.layout.form_of
    aligned = -(-sizes // ALIGNMENT) * ALIGNMENT
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64)
    offsets[1:] = torch.from_numpy(aligned.cumsum())
    packed = torch.empty(int(aligned.sum()), dtype=torch.uint8, device=model.lm_head.device)
    pieces_of: dict[tuple[int, int], list[tuple[WeightSection, int]]] = {}
    for sections, offset in zip(program.sections, offsets.tolist(), strict=False):
        at = offset
        for section in sections:
            pieces_of.setdefault((section.layer, section.matrix), []).append((section, at))
            at += program.section_bytes(section)

    def place(matrix: int, layer: int, codes: "QuantisedMatrix") -> None:
        cut: dict[tuple[int, int], torch.Tensor] = {}
        mine = pieces_of.get((layer, matrix), [])
        first = min((s.tile for s, _ in mine), default=0)  # of the LM head a rank has some of the rows
        own = codes.rows(slice(16 * first, 16 * max((s.tile + s.units for s, _ in mine), default=0)))
        for s, begin in mine:
            if (s.k_tile, s.k_tiles) not in cut:
                cut[s.k_tile, s.k_tiles] = streams(own, form_of(matrix), s.k_tile, s.k_tiles)
            piece = cut[s.k_tile, s.k_tiles][s.tile - first : s.tile - first + s.units]
            packed[begin : begin + piece.numel()].view(piece.shape).copy_(piece)

    with torch.no_grad():
        for matrix, layer, codes in encode_matrices(model, program.layout.form.name, rounded):
            place(matrix, layer, codes)
    return packed, offsets
