"""A call of flash_hopper.cu: schedules the tiles, checks the arguments, encodes tensor maps."""

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernels.attention.flash_hopper import ENTRY, SHAPE, SOURCE, constants, shared_bytes
from kernels.attention.schedule import schedule
from kernels.check_args import check_out, check_qkv
from kernels.cuda import nvrtc
from kernels.cuda.call import CudaCall, Prepared, size_and_strides
from kernels.cuda.launch import Launch
from kernels.dtypes import DTYPES
from kernels.ops import AttentionCase
from kernels.tiles.maps import named


class FlashCall(CudaCall):
    """f(q, k, v) -> o, contiguous; `params` is complete."""

    open_layout = staticmethod(size_and_strides)

    def __init__(self, case: AttentionCase, params: dict[str, int]) -> None:
        super().__init__()
        self.case, self.params, self.shared_bytes = case, params, shared_bytes(case, params)
        self.kernel = nvrtc.load(SOURCE, ENTRY, constants(case, params), self.shared_bytes)
        self._tables: dict[torch.device, Tensor] = {}
        self._table(torch.device("cuda", torch.cuda.current_device()))  # made before any graph capture: no copy there

    def _table(self, device: torch.device) -> Tensor:
        if device not in self._tables:
            blocks = torch.cuda.get_device_properties(device).multi_processor_count
            tiles = schedule(self.case, 64 * self.params["consumers"], self.params["keys"], blocks)
            self._tables[device] = torch.from_numpy(tiles).to(device)
        return self._tables[device]

    def _prepare(self, check: bool, stream: int, out: Any, q: Tensor, k: Tensor, v: Tensor) -> Prepared:
        case = self.case
        shape = (case.batch, case.q_len, case.heads, case.head_dim)
        if check:
            check_qkv(case, q, k, v, None)
            check_out(out, shape, (DTYPES[case.dtype],))
        allocate = partial(torch.empty, *shape, dtype=q.dtype, device=q.device)
        if k.numel() == 0 or q.numel() == 0:
            return Prepared(allocate, lambda o: o.zero_, holds=q)  # not kept: its launch references o
        keys = self.params["keys"]
        maps = [
            named(name, each, (1, rows, 1, 64)) for name, each, rows in (("q", q, 64), ("k", k, keys), ("v", v, keys))
        ]
        tiles, scale = self._table(q.device), math.log2(math.e) / math.sqrt(case.head_dim)
        values = (tiles.data_ptr(), case.heads // case.kv_heads, case.q_len, case.kv_len, scale)
        problem = np.array(values, dtype=SHAPE).view(f"V{SHAPE.itemsize}")
        grid, threads = (tiles.shape[1],), 128 * (self.params["consumers"] + 1)

        def bind(o: Tensor) -> Launch:
            given = (*maps, named("out", o, (1, 64, 1, 64)), problem)
            return Launch(self.kernel, grid, threads, given, stream, self.shared_bytes)

        return Prepared(allocate, bind)
