"""What the warps of skinny.cuh compute from a packed stream, lane by lane, in numpy-like torch: the layout's reader."""

import torch

from kernels.gemm.skinny_pack import pairs_of
from kernels.gemm.skinny_tiles import STEP_BYTES, STEP_K, TileConfig
from kernels.quant.formats import E2M1


def weight_of(stream: torch.Tensor, config: TileConfig, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The values [units · unit_rows, splits · split_k] that the lanes multiply, before row scales."""
    size = STEP_BYTES[config.kind]
    steps = stream.view(
        config.units,
        config.splits,
        config.steps,
        config.warps // config.k_warps,
        config.k_warps,
        config.row_tiles,
        size,
    )
    step_k = STEP_K[config.kind]
    tiles = torch.stack([_step(each, config.kind, dtype) for each in steps.reshape(-1, size)])
    tiles = tiles.view(*steps.shape[:-1], 16, step_k)  # unit, split, step, row warp, k warp, tile, row, column
    return tiles.permute(0, 3, 5, 6, 1, 2, 4, 7).reshape(
        config.units * config.unit_rows, config.splits * config.split_k
    )


def _step(content: torch.Tensor, kind: str, dtype: torch.dtype) -> torch.Tensor:
    """One step of one tile, [16, step_k]."""
    found = torch.zeros(16, STEP_K[kind])
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for product, registers in enumerate(_products(content, kind, dtype, lane)):
            column = product // 2 * 32 + 8 * t + product % 2 * 4
            for i, pair in enumerate(registers):  # a0: row g, a1: row g + 8, a2 and a3 two columns on
                found[g + i % 2 * 8, column + i // 2 * 2 : column + i // 2 * 2 + 2] = pair
    return found


def _products(content, kind, dtype, lane):
    """The operand registers a0 to a3 of each 16 × 16 product, as pairs of values."""
    fragments = content[: STEP_BYTES[kind] // 512 * 512].view(-1, 32, 16)[:, lane]
    if kind == "same":
        for fragment in fragments:
            yield fragment.view(dtype).float().view(4, 2)
    elif kind == "fp8":
        yield from fragments[0].view(torch.float8_e4m3fn).float().view(2, 4, 2)
    elif kind == "int8":
        scales = content[512:].view(torch.float16).float().view(8, 2)[lane // 4]  # of rows g and g + 8
        yield from ((fragments[0].float() - 128).view(2, 2, 2, 2) * scales[:, None]).view(2, 4, 2)
    elif kind == "nvfp4":
        scales = content[512:].view(torch.float8_e4m3fn).float().view(16, 2, 2)[lane // 2]
        for i, word in enumerate(_integers(fragments)):
            yield torch.stack([_e2m1(word, j) * scales[i // 2, j % 2] for j in range(4)])
    elif kind == "mxfp4":
        scales = content[512:].view(torch.float8_e8m0fnu).float().view(8, 2, 2)[lane // 4]  # of a group's rows
        for i, word in enumerate(_integers(fragments)):
            yield torch.stack([_e2m1(word, j) * scales[i // 2, j % 2] for j in range(4)])
    else:
        groups = 1 if kind == "int4_zero" else 2
        tail = content[512:].view(torch.float16).float().view(groups, 8, -1, 2)[:, lane // 4]  # scales, and zeros
        for i, word in enumerate(_integers(fragments)):
            scales, *beside = tail[i * groups // 4]
            minimums = beside[0] if kind == "int4_minimum" else torch.zeros(2)
            zeros = -beside[0] - torch.tensor([1024.0, 64.0]) if kind == "int4_zero" else torch.full((2,), 8.0)
            if kind == "int4_minimum":
                zeros = torch.zeros(2)
            yield torch.stack(
                [
                    torch.tensor([(word >> 4 * j & 15) - zeros[j % 2], (word >> 16 + 4 * j & 15) - zeros[j % 2]])
                    * scales[j % 2]
                    + minimums[j % 2]
                    for j in range(4)
                ]
            )


def _integers(fragments):
    return [int(each) & 0xFFFFFFFF for each in fragments.contiguous().view(torch.int32).flatten()]


def _e2m1(word: int, j: int) -> torch.Tensor:
    """Pair j as the kernel finds it: magnitude at bits 9 to 11 of each half, sign at bit 15."""
    pair = pairs_of(word)[j]
    return torch.tensor([(-1) ** (pair >> 15 + half & 1) * E2M1[pair >> 9 + half & 7] for half in (0, 16)])
