"""The CUDA source of a decode step's attention, run thread by thread on a CPU: right, and without a deadlock."""

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from kernels.attention import step_hopper_tiles
from kernels.check_args import C_TYPES
from kernels.ops import StepAttentionCase, reference
from kernels.proof import inputs
from tests.kernels.on_cpu.translate import library

CHUNK = 32
"""Few keys at once, so that there are several rounds."""
LARGER = 64
"""Bytes by which a block's barriers are larger here."""
ENTRY = """
extern "C" int run(const Params* call, int kv_heads, int batch, long shared_bytes) {
  const uint3 grid{SPLITS, (unsigned)kv_heads, (unsigned)batch};
  return fibers::run(grid, kThreads, SPLITS, shared_bytes, [&] { step_attention(*call); });
}
extern "C" long size_of_shared() { return sizeof(Shared); }"""


def attended(
    case: StepAttentionCase, given: dict[str, torch.Tensor], splits: int, parts: int = 1, capacity: int = 0
) -> Any:
    """o of the kernel; the caches in `given` have the new slots afterwards. `capacity` where their shape is another."""
    group = case.heads // case.kv_heads // parts
    macros: dict[str, Any] = {
        "HEAD_DIM": case.head_dim, "GROUP": group, "PARTS": parts, "SPLITS": splits, "CHUNK": CHUNK,
        "PAGE_SIZE": step_hopper_tiles.page_size_of(case),
        "HEAD_NORMS": int(case.norm_eps is not None), "SINKS": int(bool(case.sinks)),
    }  # fmt: skip
    kernel = library(
        step_hopper_tiles.SOURCE, ENTRY, macros | step_hopper_tiles.sizes(macros) | {"ELEMENT": C_TYPES[case.dtype]}
    )
    size = step_hopper_tiles.shared_bytes(case.head_dim, group, CHUNK, splits) + LARGER
    assert kernel.size_of_shared() <= size
    o = torch.full((case.batch, case.heads * case.head_dim), float("nan"), dtype=given["qkv"].dtype)
    call = np.zeros((), np.dtype(step_hopper_tiles.FIELDS, align=True))
    names = {"qkv": "qkv", "cosines": "cos", "sines": "sin", "keys": "k_cache", "values": "v_cache"}
    norms = {"query_norm": "q_norm", "key_norm": "k_norm"} if case.norm_eps is not None else {}
    for field, name in (names | norms | {"position": "position", "sinks": "sinks"}).items():
        call[field] = given[name].data_ptr() if name in given else 0
    call["out"], call["position_step"], call["capacity"] = o.data_ptr(), 1, capacity or given["k_cache"].shape[1]
    call["window"], call["scale"] = case.window or 0, case.head_dim**-0.5
    call["norm_eps"] = case.norm_eps or 0
    steps = (capacity * case.kv_heads * case.head_dim, case.head_dim, case.head_dim) if capacity else None
    call["page_step"], call["token_step"], call["head_step"] = steps or given["k_cache"].stride()[:3]
    if case.paged:
        table, pages, size_of_page = given["page_table"], *given["k_cache"].shape[:2]
        call["tables"], call["table_step"], call["pages"] = table.data_ptr(), table.stride(0), pages
        call["capacity"] = table.shape[1] * size_of_page
    ran = kernel.run(call.ctypes.data_as(ctypes.c_void_p), case.kv_heads * parts, case.batch, ctypes.c_long(size))
    assert ran == 0, "all threads wait for each other"
    return o


@pytest.mark.parametrize(
    ("case", "splits", "parts"),
    [
        (StepAttentionCase(batch=2, heads=8, kv_heads=2, head_dim=64, kv_len=90), 4, 2),
        (StepAttentionCase(batch=1, heads=12, kv_heads=1, head_dim=128, kv_len=77, dtype="fp16"), 2, 3),
        (StepAttentionCase(batch=1, heads=4, kv_heads=2, head_dim=64, kv_len=60, window=16), 2, 1),
        (StepAttentionCase(batch=1, heads=4, kv_heads=1, head_dim=64, kv_len=1), 4, 2),
        (StepAttentionCase(batch=2, heads=8, kv_heads=1, head_dim=64, kv_len=90, window=40, sinks=True), 2, 2),
        (StepAttentionCase(batch=2, heads=8, kv_heads=2, head_dim=128, kv_len=50, norm_eps=1e-2), 2, 2),
        (StepAttentionCase(batch=3, heads=8, kv_heads=2, head_dim=64, kv_len=90, paged=True), 2, 2),
        (StepAttentionCase(batch=1, heads=2, kv_heads=2, head_dim=64, kv_len=40, paged=True, page_size=8), 4, 1),
    ],
)  # few other sizes: each is compiled
def test_it_is_right(case: StepAttentionCase, splits: int, parts: int) -> None:
    given = inputs.draw(case, "cpu", 1)
    truth = reference.compute(case, given)
    own = case.native(given)
    before = given["k_cache"].clone()
    o = attended(case, given, splits, parts)
    limit = 2 * (own[0].double() - truth[0]).abs().max() + torch.finfo(o.dtype).eps * truth[0].abs().max()
    assert (o.double() - truth[0]).abs().max() <= limit
    at = case.written_slots(given)
    torch.testing.assert_close(given["k_cache"][at].double(), truth[1], atol=0.02, rtol=0.02)
    assert torch.equal(given["v_cache"][at], own[2])
    given["k_cache"][at] = before[at]
    assert torch.equal(given["k_cache"], before)


def test_caches_may_be_halves_of_one_tensor() -> None:
    """As vLLM's pages, where a head's key and value of a token lie side by side."""
    case = StepAttentionCase(batch=3, heads=8, kv_heads=2, head_dim=64, kv_len=90, paged=True)
    given = inputs.draw(case, "cpu", 1)
    halves = torch.cat([given["k_cache"], given["v_cache"]], dim=-1)
    joined = given | dict(zip(("k_cache", "v_cache"), halves.split(case.head_dim, dim=-1), strict=True))
    assert torch.equal(attended(case, joined, 2, 2), attended(case, given, 2, 2))
    assert torch.equal(halves, torch.cat([given["k_cache"], given["v_cache"]], dim=-1))


def test_offsets_beyond_32_bits() -> None:
    """A cache whose second sequence begins behind 2³¹ elements, in memory that is mostly never touched."""
    case = StepAttentionCase(batch=2, heads=2, kv_heads=1, head_dim=64, kv_len=20)
    given = inputs.draw(case, "cpu", 1)
    near, far = given, dict(given)
    for name in ("k_cache", "v_cache"):
        first, second = (item.flatten() for item in given[name])
        far[name] = torch.empty(2**31 + second.numel(), dtype=first.dtype)
        far[name][: first.numel()], far[name][2**31 :] = first, second
    o = attended(case, far, 2, capacity=2**31 // case.head_dim)
    assert torch.equal(o, attended(case, near, 2))
    assert torch.equal(far["k_cache"][2**31 :], near["k_cache"][1].flatten())
    assert torch.equal(far["v_cache"][2**31 :], near["v_cache"][1].flatten())


def test_a_position_outside_the_cache_gives_nan_and_writes_nothing() -> None:
    case = StepAttentionCase(batch=2, heads=2, kv_heads=1, head_dim=64, kv_len=20)
    given = inputs.draw(case, "cpu", 1)
    given["position"] = torch.tensor([given["k_cache"].shape[1], 19])
    before = given["k_cache"].clone()
    o = attended(case, given, 2)
    assert bool(o[0].isnan().all())
    assert bool(torch.isfinite(o[1]).all())
    assert torch.equal(given["k_cache"][0], before[0])


@pytest.mark.parametrize("place", [1, 4])
def test_an_entry_that_is_no_page_gives_nan_and_writes_nothing(place: int) -> None:
    """An older page, and the page of the new token."""
    case = StepAttentionCase(batch=2, heads=4, kv_heads=1, head_dim=64, kv_len=70, paged=True)
    given = inputs.draw(case, "cpu", 1)
    given["position"] = torch.tensor([69, 68])
    given["page_table"][1, place] = len(given["k_cache"])
    before, written = given["k_cache"].clone(), given["page_table"][:, 4].tolist()
    o = attended(case, given, 2, 2)
    assert bool(torch.isfinite(o[0]).all())
    assert bool(o[1].isnan().all())
    changed = (given["k_cache"] != before).flatten(1).any(1).nonzero().flatten().tolist()
    assert changed == sorted(page for page in written if page < len(before))
