"""A call of FlashAttention in Triton. Only `build` imports this module: it needs Triton."""

import math
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from kernels.attention.forward_triton import attention_forward, config
from kernels.check_args import check_outputs, check_qkv, check_sinks
from kernels.cuda.call import CudaCall, Output, Prepared, allocation, launch_nothing, size_and_strides
from kernels.cuda.pdl_triton import uses_pdl
from kernels.cuda.strided_triton import strided
from kernels.cuda.triton_launch import prepared
from kernels.ops import AttentionCase


class FlashTritonCall(CudaCall):
    """f(q, k, v, sinks=None, out=None) -> o, contiguous; `tuning` as `FlashTriton.build` says."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: AttentionCase, tuning: dict[str, int], pdl: bool) -> None:
        super().__init__()
        self.case, self.tuning, self.pdl = case, tuning, pdl
        scale = 1 / math.sqrt(case.head_dim)
        self.score = scale if case.softcap is not None else scale * math.log2(math.e), case.softcap or 0.0
        self.rows = _tiles(case.lengths, tuning["block_m"]) if case.lengths is not None else []
        self.tables: dict[torch.device, Tensor] = {}

    def _prepare(
        self, check: bool, stream: int, out: Any, /, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None = None
    ) -> Prepared:
        case, tuning = self.case, self.tuning
        outputs = [Output("out", tuple(q.shape), q.dtype)]
        if check:
            check_qkv(case, q, k, v, q.device)
            check_sinks(case, sinks, q.device)
            _check_rows({"k": k, "v": v}, tuning["block_n"])
            check_outputs(out, outputs, q.device)
        allocate = allocation(outputs, q.device)
        if not q.numel():
            return Prepared(allocate, lambda _: launch_nothing)
        if q.device not in self.tables:
            self.tables[q.device] = torch.tensor(self.rows, dtype=torch.int32, device=q.device)
        count = len(self.rows) if case.lengths is not None else -(-case.q_len // tuning["block_m"])
        tiles = self.tables[q.device], count
        shape = case.heads, case.heads // case.kv_heads, case.q_len, case.kv_len
        pdl = uses_pdl(self.pdl, q.device)
        constants = config(case, tuning["block_m"], tuning["block_n"], pdl)

        def arguments(o: Tensor) -> tuple[Any, ...]:
            score = *self.score, o if sinks is None else sinks
            return (strided(q), strided(k), strided(v), o, tiles, shape, score, constants)

        grid = (case.batch * case.heads * count,)
        options = {"num_warps": tuning["warps"], "num_stages": tuning["stages"]}
        return prepared(attention_forward, grid, stream, allocate, arguments, launch_pdl=pdl, **options)


def _check_rows(tensors: dict[str, Tensor], block_n: int) -> None:
    """Raises ValueError that names the tensor if the rows of a block span more elements than an int32 counts."""
    for name, given in tensors.items():
        if given.stride(1) * block_n >= 2**31:
            raise ValueError(f"{name} has rows {given.stride(1)} elements apart: {block_n} of them pass 2³¹")


def _tiles(lengths: tuple[int, ...], block_m: int) -> list[tuple[int, int, int]]:
    """The tiles of the packed sequences: each the start and length of its sequence, and its own first row in it."""
    begins = [0, *accumulate(lengths)]
    return [
        (begin, length, row)
        for begin, length in zip(begins, lengths, strict=False)
        for row in range(0, length, block_m)
    ]
