"""gemm_blackwell on a GPU of sm_100: it is right; where all variants for that generation are offered."""

from typing import Any

import pytest

from kernels import registry
from kernels.blackwell.gemm_tiles import space
from kernels.hardware import GENERATIONS, GPUS, generation
from kernels.ops import AttentionCase, Case, GroupedCase, LinearCase
from kernels.proof import gate

FLASH = AttentionCase(kind="prefill", head_dim=64, heads=4, kv_heads=2, batch=2, q_len=300, kv_len=300)
GROUPED = GroupedCase(rows=300, experts=4, n=264, k=320)
SERVED: dict[str, list[dict[str, Any]]] = {
    "gemm_blackwell": [{}, {"dtype": "fp16", "weights": "fp16", "epilogue": "swiglu"}],
    "gemm_blackwell_scaled": [{"weights": "fp8", "scales": "tensor"},
        {"weights": "fp8", "scales": "row", "epilogue": "residual"},
        {"weights": "fp8", "scales": "block32", "epilogue": "bias"}, {"weights": "nvfp4", "scales": "block16"}],
}  # fmt: skip


def case(**fields: Any) -> LinearCase:
    return LinearCase(**{"m": 300, "n": 328, "k": 608} | fields)


OFFERED: dict[str, list[Case]] = {
    **{name: [case(**fields) for fields in served] for name, served in SERVED.items()},
    "flash_blackwell": [
        FLASH.model_copy(update=fields)
        for fields in ({}, {"head_dim": 128, "dtype": "fp16", "kv_dtype": "fp16"}, {"causal": False}, {"window": 100})
    ],
    "grouped_blackwell": [GROUPED],
    "grouped_blackwell_fp8": [GROUPED.model_copy(update={"scales": "row"})],
}


@pytest.mark.parametrize("name", OFFERED)
def test_it_is_offered_on_sm_100_alone_and_says_that_it_never_ran(name: str) -> None:
    variant = registry.variant(name)
    assert variant.summary.endswith("compiles, emulated, never run on the chip")
    for item in OFFERED[name]:
        assert [sm for sm in GENERATIONS if variant.serves(item, generation(sm)) is None] == [100]


def test_no_other_variant_takes_blocks_of_32_or_16() -> None:
    for fields in SERVED["gemm_blackwell_scaled"][2:]:
        for gpu in GPUS.values():
            able, _ = registry.offers(case(**fields), gpu)
            assert [item.name for item in able] == (["gemm_blackwell_scaled"] if gpu.sm == 100 else [])


@pytest.mark.gpu
@pytest.mark.parametrize("name", SERVED)
def test_it_is_right(name: str) -> None:
    import torch

    if torch.cuda.get_device_capability() != (10, 0):
        pytest.skip("it is built for sm_100a")
    for shape in (case(**fields) for fields in SERVED[name]):
        for params in space(shape):
            report = gate.check(registry.variant(name), shape, "cuda", params)
            assert report.passed, f"{shape.key} {params}: {report.sentence}"
