"""A call of flash_hopper.cu or flash_blackwell.cu: schedules the tiles, checks the arguments, encodes tensor maps."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.attention.flash_tiles import SHAPE, FlashPlan
from kernels.attention.schedule import schedule
from kernels.check_args import check_out, check_qkv
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, size_and_strides
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.ops import AttentionCase
from kernels.tiles.maps import named


class FlashCall(CudaCall):
    """f(q, k, v) -> o, contiguous."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: AttentionCase, plan: FlashPlan) -> None:
        super().__init__()
        self.case, self.plan = case, plan
        self.kernel = nvrtc.load(plan.build, plan.entry, plan.shared_bytes)
        self._tables: dict[torch.device, Tensor] = {}
        self._table(torch.device("cuda", torch.cuda.current_device()))  # made before any graph capture: no copy there

    def _table(self, device: torch.device) -> Tensor:
        if device not in self._tables:
            tiles = schedule(self.case, self.plan.rows, self.plan.keys, self._sms(device))
            self._tables[device] = torch.from_numpy(tiles).to(device)
        return self._tables[device]

    def _prepare(self, check: bool, stream: int, out: Any, q: Tensor, k: Tensor, v: Tensor) -> Prepared:
        case, plan = self.case, self.plan
        shape = (case.batch, case.q_len, case.heads, case.head_dim)
        if check:
            check_qkv(case, q, k, v, None)
            check_out(out, shape, (DTYPES[case.dtype],))
        allocate = partial(torch.empty, *shape, dtype=q.dtype, device=q.device)
        if k.numel() == 0 or q.numel() == 0:
            return Prepared(allocate, lambda o: o.zero_, holds=q)  # not kept: its launch references o
        copied = (("q", q, plan.q_rows), ("k", k, plan.keys), ("v", v, plan.keys))
        maps = [named(name, tensor, (1, rows, 1, 64)) for name, tensor, rows in copied]
        tiles = self._table(q.device)
        problem = shape_of(case, tiles.data_ptr()).view(f"V{SHAPE.itemsize}")

        def bind(o: Tensor) -> Launch:
            given = (*maps, named("out", o, (1, plan.o_rows, 1, 64)), problem)
            return Launch(self.kernel, (tiles.shape[1],), plan.threads, given, stream, plan.shared_bytes)

        return Prepared(allocate, bind)


def shape_of(case: AttentionCase, schedule: int) -> np.ndarray:
    """The `Shape` of a launch whose table of tiles lies at this address."""
    scale = math.log2(math.e) / math.sqrt(case.head_dim)
    return np.array((schedule, case.heads // case.kv_heads, case.q_len, case.kv_len, scale), dtype=SHAPE)
