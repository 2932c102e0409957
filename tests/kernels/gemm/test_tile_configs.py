"""What a plan says of one size of a product serves its other sizes too: prompts of other lengths, other batches."""

import itertools

import pytest

from kernels import registry
from kernels.gemm import small
from kernels.gemm.small_tiles import configs
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.ops import LinearCase, LmHeadCase
from kernels.runners.planned import PlannedLinear
from kernels.tune.plan_search import planned_op

SHAPES = [(3072, 2048), (2048, 8192), (17_920, 1536), (28_672, 4096)]
H200 = GPUS["h200"]


@pytest.mark.parametrize(
    ("name", "weights", "sizes"),
    [
        ("small_gemm", "bf16", (9, 64, 128, 192, 256)),
        ("skinny", "bf16", (1, 2, 8, 16)),
        ("skinny_fp8", "fp8", (1, 16)),
        ("skinny_nvfp4", "nvfp4", (1, 16)),
        ("lm_head_skinny", "bf16", (1, 16)),
    ],
)
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
            found = variant.resized(other, given)
            variant.build(other, found)
            assert found["pdl"]
            assert variant.resized(one, given) == given
            changed += found != given
    assert changed or variant.op == "lm_head"


def test_a_name_that_no_cut_has_stays_wrong():
    case = LinearCase(m=64, n=64, k=64)
    variant = registry.variant("small_gemm")
    with pytest.raises(ValueError, match="tile"):
        variant.build(case, variant.resized(case, {"tile": 3}))


def test_a_plan_for_short_prompts_serves_long_ones():
    case = LinearCase(m=128, n=3072, k=2048)
    longer, variant = case.model_copy(update={"m": 256}), registry.variant("small_gemm")
    every = ({name: getattr(config, name) for name in small.CONFIG_PARAMS} for config in configs(case))
    params = next(each for each in every if variant.resized(longer, each) != each)
    ops = [planned_op(case, "small_gemm", params)]
    for variants in (BoundVariants(ops, H200), PlannedLinear(ops, H200).variants):
        found = variants.planned(longer)
        assert found is not None
        assert found.variant is variant
        assert callable(found.function)
