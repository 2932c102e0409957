"""gemm_hopper: what it serves, how it packs, that every form compiles without spills; on a GPU, that it is right."""

import itertools
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.cuda.occupancy import MAX_SHARED_BYTES
from kernels.gemm import hopper_call, small
from kernels.gemm.hopper_tiles import PING_PONG, panels_of, space, tile_of
from kernels.gemm.small_tiles import configs
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.ops import LinearCase, LmHeadCase
from kernels.proof import gate
from kernels.registry import variant
from kernels.runners.planned import PlannedLinear
from kernels.tune.plan_search import planned_op
from tests.kernels.compiling import compile_log, resources

EPILOGUES = tuple(hopper_call.KINDS)


def case(**fields: Any) -> LinearCase:
    return LinearCase(**{"m": 1024, "n": 1024, "k": 512} | fields)


@pytest.mark.parametrize("epilogue", ["bias", "residual", "swiglu", "quantise"])
def test_it_compiles_without_spills(epilogue: str) -> None:
    shape = case(epilogue=epilogue)
    tile = tile_of(shape, {"columns": 192 if epilogue == "bias" else 256, "stages": 4})
    result = resources(log := compile_log(hopper_call.SOURCE, hopper_call.constants(shape, tile)))
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize(
    ("fields", "params"),
    [({"dtype": "fp16", "weights": "fp16"}, PING_PONG[1]), ({"weights": "fp8", "scales": "row"}, PING_PONG[0])],
    ids=str,
)
def test_turns_compile_without_spills(fields: dict[str, Any], params: dict[str, Any]) -> None:
    tile = tile_of(shape := case(**fields), params | {"ping_pong": True})
    assert tile.shared_bytes <= MAX_SHARED_BYTES
    result = resources(log := compile_log(hopper_call.PING_PONG, hopper_call.constants(shape, tile)))
    assert (result.stack, result.spill_stores, result.spill_loads) == (0, 0, 0)
    assert "serialized" not in log


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_every_tile_of_the_space_fits(epilogue: str) -> None:
    shape = case(epilogue=epilogue)
    for params in space(shape):
        tile = tile_of(shape, params)
        assert tile.shared_bytes <= MAX_SHARED_BYTES
        assert tile.panels == -(-panels_of(shape, tile.columns) // 2)
        assert epilogue != "residual" or panels_of(shape, tile.columns) % 2 == 0


def test_the_first_tile_fills_the_last_wave_and_turns_are_tried_where_each_has_a_tile() -> None:
    assert space(case(n=6144, k=4096))[0]["columns"] == 192
    assert space(case(m=8192, n=8192, k=8192))[0]["columns"] == 256
    assert not any(item.get("ping_pong") for item in space(case()))
    large = case(m=8192, n=8192, k=8192)
    assert [item["columns"] for item in space(large) if item.get("ping_pong")] == [192, 128]
    for fields in ({"epilogue": "bias"}, {"weights": "fp8", "scales": "block"}):
        assert not any(item.get("ping_pong") for item in space(large.model_copy(update=fields)))
    both = space(large.model_copy(update={"weights": "fp8", "scales": "row"}))
    assert not any(item.get("ping_pong") and item.get("promote") for item in both)


def test_gate_and_up_lie_interleaved() -> None:
    shape = case(n=16, k=8, epilogue="swiglu")
    w = torch.arange(32.0)[:, None].expand(32, 8)
    rows = variant("gemm_hopper").pack(shape, {}, w)[:, 0].tolist()
    assert rows == [*range(8), *range(16, 24), *range(8, 16), *range(24, 32)]


def _gate(shape: LinearCase, params: dict[str, Any]) -> None:
    report = gate.check(variant("gemm_hopper"), shape, "cuda", params)
    assert report.passed, f"{shape.key} {params}: {report.sentence}"


@pytest.mark.gpu
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("shape", [(300, 264, 328), (1, 8, 8), (1029, 1536, 1024)])
def test_it_is_right(epilogue: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    for params in space(result := case(m=m, n=n, k=k, epilogue=epilogue)):
        _gate(result, params)


@pytest.mark.gpu
@pytest.mark.parametrize("params", PING_PONG, ids=str)
@pytest.mark.parametrize("shape", [(300, 264, 328), (1, 8, 8), (2100, 8200, 520), (257, 131, 136)])
def test_ping_pong_is_right(shape: tuple[int, int, int], params: dict[str, Any]) -> None:
    m, n, k = shape
    _gate(case(m=m, n=n, k=k), params | {"ping_pong": True})


@pytest.mark.gpu
def test_columns_that_are_no_multiple_of_8() -> None:
    for epilogue in ("none", "bias", "residual"):
        _gate(case(m=257, n=131, k=136, epilogue=epilogue, dtype="fp16", weights="fp16"), {})


@pytest.mark.gpu
def test_no_rows_and_bad_arguments() -> None:
    product = variant("gemm_hopper").build(case(m=4, n=64, k=64), {})
    x, w = (torch.randn(rows, 64, device="cuda", dtype=torch.bfloat16) for rows in (4, 64))
    assert product(x[:0], w).shape == (0, 64)
    crooked = torch.randn(4 * 64 + 1, device="cuda").bfloat16()[1:].view(4, 64)
    for bad, word in (
        (x[:, :56], "x has shape"),
        (x.half(), "x is"),
        (crooked, "x: .*multiple of 16"),
        (x.cpu(), "x is"),
    ):
        with pytest.raises(ValueError, match=word):
            product(bad, w)
    with pytest.raises(ValueError, match="bias is given"):
        product(x, w, bias=w[:, 0].contiguous())


@pytest.mark.gpu
def test_nan_and_infinity_stay_in_their_rows() -> None:
    product = variant("gemm_hopper").build(case(m=300, n=264, k=328), {})
    x, w = (torch.randn(rows, 328, device="cuda", dtype=torch.bfloat16) for rows in (300, 264))
    x[7, 3], x[200, 5] = float("nan"), float("inf")
    y = product(x, w)
    assert y[7].isnan().all()
    assert not y[200].isfinite().any()
    assert int((~y.isfinite()).any(dim=1).sum()) == 2


SHAPES = [(3072, 2048), (2048, 8192), (17_920, 1536), (28_672, 4096)]
H200 = GPUS["h200"]


@pytest.mark.parametrize(
    ("name", "weights", "sizes"),
    [
        ("small_gemm", "bf16", (9, 64, 128, 192, 256)), ("skinny", "bf16", (1, 2, 8, 16)),
        ("skinny_fp8", "fp8", (1, 16)), ("skinny_nvfp4", "nvfp4", (1, 16)), ("lm_head_skinny", "bf16", (1, 16)),
    ],
)  # fmt: skip
def test_params_of_one_size_cut_every_other(name, weights, sizes):
    variant, changed = registry.variant(name), 0
    for (n, k), (planned, met) in itertools.product(SHAPES, itertools.permutations(sizes, 2)):
        if variant.op == "lm_head":
            one, other = (LmHeadCase(m=m, vocab=8 * n, k=k, weights=weights) for m in (planned, met))
        else:
            one, other = (LinearCase(m=m, n=n, k=k, weights=weights, epilogue="residual") for m in (planned, met))
        if variant.serves(one, H200) or variant.serves(other, H200):
            continue
        for params in variant.space(one):
            given = params | {"pdl": True}
            resized = variant.resized(other, given)
            variant.build(other, resized)
            assert resized["pdl"]
            assert variant.resized(one, given) == given
            changed += resized != given
    assert changed or variant.op == "lm_head"


def test_a_plan_for_short_prompts_serves_long_ones_and_keeps_wrong_names():
    case = LinearCase(m=128, n=3072, k=2048)
    longer, variant = case.model_copy(update={"m": 256}), registry.variant("small_gemm")
    every = ({name: getattr(config, name) for name in small.CONFIG_PARAMS} for config in configs(case))
    params = next(item for item in every if variant.resized(longer, item) != item)
    ops = [planned_op(case, "small_gemm", params)]
    for variants in (BoundVariants(ops, H200), PlannedLinear(ops, H200).variants):
        planned = variants.planned(longer)
        assert planned.variant is variant
        assert callable(planned.function)
    case = LinearCase(m=64, n=64, k=64)
    variant = registry.variant("small_gemm")
    with pytest.raises(ValueError, match="tile"):
        variant.build(case, variant.resized(case, {"tile": 3}))
