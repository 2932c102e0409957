"""Weights in the order in which the megakernel reads them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kernels.megakernel.program import DOWN, GATE_UP, HEAD, OUT, QKV, Program

if TYPE_CHECKING:
    import torch

WEIGHT_ALIGNMENT = 128


def fragments(weight: "torch.Tensor") -> "torch.Tensor":
    """A matrix [rows, columns] bf16 as matrix-unit fragments [rows / 16, columns / 16, 256].

    Lane 4g + t of a fragment holds 8 values, 16 bytes: rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9.
    """
    rows, columns = weight.shape
    split = weight.view(rows // 16, 2, 8, columns // 16, 2, 4, 2)  # tile, row half, g, k tile, column half, t, pair
    return split.permute(0, 3, 2, 5, 4, 1, 6).reshape(rows // 16, columns // 16, 256)


def interleaved(gate: "torch.Tensor", up: "torch.Tensor") -> "torch.Tensor":
    """gate and up [n, k] as [2n, k] in tiles of 8 gate rows and the 8 up rows that belong to them."""
    import torch

    n, k = gate.shape
    return torch.stack((gate.view(n // 8, 8, k), up.view(n // 8, 8, k)), dim=1).reshape(2 * n, k)


def matrices(model: Any, layer: int) -> Iterator[tuple[int, "torch.Tensor"]]:
    """The matrices of one layer of a transformers decoder by product, q, k, v packed in this order."""
    import torch

    block = model.model.layers[layer]
    attention, mlp = block.self_attn, block.mlp
    yield QKV, torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    yield OUT, attention.o_proj.weight
    yield GATE_UP, interleaved(mlp.gate_proj.weight, mlp.up_proj.weight)
    yield DOWN, mlp.down_proj.weight


def pack(model: Any, program: Program) -> tuple["torch.Tensor", "torch.Tensor"]:
    """All weights as one bf16 vector, and each SM's byte offset into it and the end, int64 [sms + 1]. The model is left as it is."""
    import torch

    sizes = program.stream_bytes()
    aligned = -(-sizes // WEIGHT_ALIGNMENT) * WEIGHT_ALIGNMENT
    offsets = torch.zeros(len(sizes) + 1, dtype=torch.int64)
    offsets[1:] = torch.from_numpy(aligned.cumsum())
    head = model.lm_head.weight
    packed = torch.empty(int(aligned.sum()) // 2, dtype=torch.bfloat16, device=head.device)
    at = (offsets // 2).tolist()
    by_layer: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for sm, sections in enumerate(program.sections):
        for i, section in enumerate(sections):
            by_layer.setdefault((section.layer, section.matrix), []).append((sm, i))
    starts = [[0] for _ in program.sections]
    for sm, sections in enumerate(program.sections):
        for section in sections:
            starts[sm].append(starts[sm][-1] + section.units * section.k_tiles * 256)

    def place(matrix: int, layer: int, weight: "torch.Tensor") -> None:
        cut = fragments(weight.to(torch.bfloat16))
        for sm, i in by_layer.get((layer, matrix), []):
            s = program.sections[sm][i]
            piece = cut[s.tile : s.tile + s.units, s.k_tile : s.k_tile + s.k_tiles]
            begin = at[sm] + starts[sm][i]
            packed[begin : begin + piece.numel()].view(piece.shape).copy_(piece)

    with torch.no_grad():
        for layer in range(program.shape.layers):
            for matrix, weight in matrices(model, layer):
                place(matrix, layer, weight)
        missing = -program.shape.vocab % 16
        place(HEAD, program.shape.layers, torch.nn.functional.pad(head, (0, 0, 0, missing)))
    return packed, offsets
