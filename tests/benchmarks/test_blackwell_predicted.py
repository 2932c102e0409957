"""The modelled times of the Blackwell kernels are those of today's models, and none is below what a B200 can reach."""

from types import ModuleType
from typing import Any

import pytest

from benchmarks import blackwell_predicted, flash_blackwell_predicted, grouped_blackwell_predicted
from benchmarks.documents import document
from kernels.hardware import GPUS
from kernels.ops import AttentionCase, GroupedCase, LinearCase
from kernels.ops.base import MATRIX_RATE

DOCUMENTS = {
    "gemm-blackwell": blackwell_predicted,
    "grouped-blackwell": grouped_blackwell_predicted,
    "flash-blackwell": flash_blackwell_predicted,
}
CASES = {"linear": LinearCase, "grouped": GroupedCase, "attention": AttentionCase}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_committed_document_is_todays(name: str) -> None:
    model: ModuleType = DOCUMENTS[name]
    found = document(name)
    assert found == model.result(), f"python -m {model.__name__} writes it"
    assert {row["source"] for row in found["rows"]} == {"modelled"}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_time_is_below_the_roofline(name: str) -> None:
    gpu = GPUS["b200"]
    for row in document(name)["rows"]:
        fields: dict[str, Any] = row["case"]
        case = CASES[fields["op"]](**fields)
        rate = gpu.bf16_tflops * MATRIX_RATE[case.matrix_precision]
        assert row["ms"] > case.unavoidable_flops / rate / 1e9
        assert row["ms"] > case.least_bytes / gpu.memory_tbps / 1e9
