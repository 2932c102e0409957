"""The source of flash_blackwell run thread by thread on a CPU, its tensor cores and copy engine emulated."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from kernels.attention.flash_call import shape_of
from kernels.attention.schedule import schedule
from kernels.blackwell.flash import plan
from kernels.ops import AttentionCase
from tests.kernels.on_cpu.noted import NOTES, Note, notes
from tests.kernels.on_cpu.translate import library

LARGER = 1024
"""Bytes by which a block's barriers are larger here."""

ENTRY = f"""
extern "C" int run(const void* q, const void* k, const void* v, void* o, int heads, const Shape* shape, int blocks,
                   long shared_bytes, unsigned seed) {{
  const auto map = [&](const void* at, int rows, int box, int heads) {{
    return TensorMap{{(const unsigned short*)at, rows, HEAD_DIM, box, 2, heads}};
  }};
  const TensorMap of_q = map(q, shape->q_len, kRows, heads), of_o = map(o, shape->q_len, 32, heads);
  const TensorMap of_k = map(k, shape->kv_len, KEYS, heads / shape->group);
  const TensorMap of_v = map(v, shape->kv_len, KEYS, heads / shape->group);
  fibers::asynchronous = fibers::noting = true, fibers::draw = seed, fibers::notes.clear();
  const auto kernel = [&] {{ flash_blackwell(of_q, of_k, of_v, of_o, *shape); }};
  return fibers::run(blocks, 3 * kWarpgroup, 1, shared_bytes, kernel);
}}
extern "C" unsigned long long columns(unsigned address, unsigned panel) {{ return columns_descriptor(address, panel); }}
extern "C" unsigned weighted() {{ return instruction_descriptor(KIND, kRows, HEAD_DIM) | kColumnsInnermost; }}
{NOTES}"""


def built(case: AttentionCase, params: dict[str, Any]) -> ctypes.CDLL:
    """The source as C++ with the macros of a launch."""
    planned = plan(case, params)
    return library(planned.source, ENTRY, planned.constants)


def run(
    case: AttentionCase, given: dict[str, Tensor], blocks: int, seed: int, params: dict[str, Any] | None = None
) -> tuple[int, Tensor]:
    """The status of a run of the kernel by so many blocks, 0 where it ended, and o. Tiles are those of a launch."""
    return run_of(built(case, params or {}), case, given, blocks, seed, params)


def run_of(
    kernel: ctypes.CDLL,
    case: AttentionCase,
    given: dict[str, Tensor],
    blocks: int,
    seed: int,
    params: dict[str, Any] | None = None,
) -> tuple[int, Tensor]:
    """`run` of what `built` returned, or of a changed source."""
    planned = plan(case, params or {})
    table = schedule(case, planned.rows, planned.keys, blocks)
    q, k, v = (given[name].contiguous() for name in "qkv")
    o = torch.full_like(q, float("nan"))
    shape = shape_of(case, table.ctypes.data)
    status = kernel.run(
        *(ctypes.c_void_p(value.data_ptr()) for value in (q, k, v, o)), case.heads,
        shape.ctypes.data_as(ctypes.c_void_p), blocks, ctypes.c_long(planned.shared_bytes + LARGER), seed,
    )  # fmt: skip
    return status, o


def rising(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Queries and keys whose scores rise from the last key to the first: of 300 keys every block raises every base."""
    q, k = torch.empty_like(given["q"]), torch.empty_like(given["k"])
    q.copy_(torch.linspace(1, 2, q.shape[1])[None, :, None, None])
    k.copy_(torch.linspace(4, 0, k.shape[1])[None, :, None, None])
    return given | {"q": q, "k": k}


def noted(case: AttentionCase, given: dict[str, Tensor], params: dict[str, Any]) -> list[Note]:
    """What the first lanes of one block's warps did in a run."""
    ended, _ = run(case, given, 1, 1, params)
    if ended:
        raise RuntimeError("the run did not end")
    return notes(built(case, params))
