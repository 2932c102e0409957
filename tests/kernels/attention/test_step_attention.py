"""The step between two products: the kernel compiles without spills, refuses what it cannot serve, and is right."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.attention import step_hopper, step_hopper_call, step_hopper_tiles
from kernels.cases.attention import bench_step, check_step
from kernels.cuda import nvrtc
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.hardware import GPUS
from kernels.ops import StepAttentionCase
from kernels.ops.step_attention import step_attention
from kernels.proof import gate
from kernels.proof.inputs import draw
from kernels.tune.plan_search import planned_op
from tests.kernels.compiling import compile_log, resources

CASE = StepAttentionCase(batch=2, heads=8, kv_heads=2, head_dim=64, kv_len=100)
SMALL = StepAttentionCase(batch=2, heads=4, kv_heads=2, head_dim=16, kv_len=9, dtype="fp32")


@pytest.mark.parametrize(
    ("head_dim", "group", "splits", "chunk", "element", "page"),
    [(64, 4, 8, 32, "bf16", 0), (128, 8, 1, 128, "f16", 0), (256, 8, 4, 64, "bf16", 16), (64, 4, 1, 320, "bf16", 16)],
)
def test_it_compiles_without_spills(head_dim, group, splits, chunk, element, page):
    sizes = {"HEAD_DIM": head_dim, "GROUP": group, "SPLITS": splits, "CHUNK": chunk, "PAGE_SIZE": page}
    constants = sizes | {"PARTS": 2, "ELEMENT": element, "HEAD_NORMS": 1, "SINKS": 1}
    used = resources(compile_log(step_hopper_tiles.SOURCE, constants | step_hopper_tiles.sizes(constants)))
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)


def test_shared_memory_fits_every_case_and_a_window_bounds_what_counts_as_long() -> None:
    for head_dim, group in product(step_hopper.HEAD_DIMS, (1, 4, step_hopper.MAX_GROUP)):
        assert step_hopper_tiles.shared_bytes(head_dim, group, step_hopper.MAX_CHUNK[head_dim], 8) <= MAX_SHARED_BYTES
    case = CASE.model_copy(update={"kv_len": 100_000, "window": 4096})
    assert registry.variant("step_hopper").serves(case, GPUS["h200"]) is None


@pytest.mark.parametrize("params", [{}, {"pdl": True}])
def test_only_a_plan_lets_it_begin_before_what_precedes_it(params, monkeypatch):
    """A direct call may follow the very kernel that wrote the position."""
    launched: list[bool] = []
    monkeypatch.setattr(nvrtc, "load", lambda *args: None)
    monkeypatch.setattr(step_hopper_call, "Launch", lambda *args: partial(launched.append, args[-1]))
    monkeypatch.setattr(step_hopper_call, "check_step", lambda *args: None)
    drawn = draw(CASE, "cpu", seed=1)
    registry.variant("step_hopper").build(CASE, params)(**drawn)
    assert launched == [bool(params)]
    assert planned_op(CASE, "step_hopper", {}).params["pdl"]


def test_a_model_tries_query_heads_separate_and_together() -> None:
    case = CASE.model_copy(update={"batch": 1, "heads": 12})
    result = registry.variant("step_hopper").for_model(case)
    assert {(item["splits"], item["parts"]) for item in result} == {(8, 3), (8, 6), (4, 6), (8, 1)}


def test_torch_leaves_other_slots_alone_and_counts_none_beyond_the_position() -> None:
    drawn = draw(SMALL, "cpu", seed=1)
    before = drawn["k_cache"].clone()
    expected = step_attention(SMALL, **drawn)
    changed = (drawn["k_cache"] != before).any(-1).any(-1).nonzero().tolist()
    assert changed == [[row, int(drawn["position"][row])] for row in range(2)]
    for name in ("k_cache", "v_cache"):
        drawn[name][:, 9:] = float("nan")
    torch.testing.assert_close(step_attention(SMALL, **drawn), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_it_passes_the_gate_on_a_gpu(dtype: Any) -> None:
    variant = registry.variant("step_hopper")
    cases = [*check_step(dtype, True), *(item.model_copy(update={"dtype": dtype}) for item in bench_step(False))]
    for case, splits, separate in product(cases, step_hopper.SPLITS, (False, True)):
        parts = case.heads // case.kv_heads if separate else 1
        report = gate.check(variant, case, "cuda", {"splits": splits, "parts": parts, "pdl": separate})
        assert report.passed, (case.key, splits, parts, report.sentence)


@pytest.mark.gpu
def test_caches_may_be_halves_of_one_tensor_on_a_gpu() -> None:
    """As vLLM's are."""
    case = CASE.model_copy(update={"paged": True})
    given = draw(case, "cuda", seed=1)
    halves = torch.cat([given["k_cache"], given["v_cache"]], dim=-1)
    joined = given | dict(zip(("k_cache", "v_cache"), halves.split(case.head_dim, dim=-1), strict=True))
    function = registry.variant("step_hopper").build(case, {})
    assert torch.equal(function(**joined), function(**given))
    assert torch.equal(halves, torch.cat([given["k_cache"], given["v_cache"]], dim=-1))


def wrong_arguments(good: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    shifted = good["qkv"].new_empty(good["qkv"].numel() + 1)[1:].view_as(good["qkv"])
    return {
        "cos": good["cos"][:5], "qkv": shifted, "k_cache": good["k_cache"][:, :, :1],
        "v_cache": good["v_cache"].float(), "sin": good["sin"][:, ::2],
    }  # fmt: skip


def test_bad_arguments_are_named() -> None:
    good = draw(CASE, "cpu", seed=1)
    wrong = wrong_arguments(good)
    for name in ("cos", "qkv"):
        with pytest.raises(ValueError, match=f"^{name} "):
            step_hopper_call.check_step(CASE, step_hopper_call.StepArguments(**good | {name: wrong[name]}))
    with pytest.raises(ValueError, match="qkv is on cpu, not on a GPU"):
        step_hopper_call.check_step(CASE, step_hopper_call.StepArguments(**good))


@pytest.mark.gpu
def test_bad_arguments_are_named_on_a_gpu() -> None:
    function = registry.variant("step_hopper").build(CASE, {})
    good = draw(CASE, "cuda", seed=1)
    wrong = wrong_arguments(good) | {"position": good["position"].int()}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"^{name} "):
            function(**(good | {name: value}))


@pytest.mark.gpu
def test_nan_and_positions_outside_the_cache_are_seen_on_a_gpu() -> None:
    function = registry.variant("step_hopper").build(CASE, {})
    drawn = draw(CASE, "cuda", seed=1)
    cache = drawn["k_cache"].clone()
    outside = function(**(drawn | {"position": torch.tensor([5, 10_000], device="cuda")}))
    assert bool(torch.isfinite(outside[0]).all())
    assert bool(outside[1].isnan().all())
    assert torch.equal(drawn["k_cache"][1], cache[1])
    drawn["k_cache"][0, 3, 0, 5] = float("nan")
    poisoned = function(**drawn)
    group = CASE.heads // CASE.kv_heads * CASE.head_dim
    assert bool(poisoned[0, :group].isnan().all())
    assert bool(torch.isfinite(poisoned[0, group:]).all())
