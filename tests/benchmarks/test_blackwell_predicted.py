"""The modelled times of gemm_blackwell are those of today's model, and none is below what a B200 can reach."""

from benchmarks import blackwell_predicted
from benchmarks.documents import document
from kernels.hardware import GPUS
from kernels.ops import LinearCase
from kernels.ops.base import MATRIX_RATE


def test_the_committed_document_is_todays() -> None:
    found = document("gemm-blackwell")
    assert found == blackwell_predicted.result(), "python -m benchmarks.blackwell_predicted writes it"
    assert {row["source"] for row in found["rows"]} == {"modelled"}


def test_no_time_is_below_the_roofline() -> None:
    gpu = GPUS["b200"]
    for row in document("gemm-blackwell")["rows"]:
        case = LinearCase(**row["case"])
        rate = gpu.bf16_tflops * MATRIX_RATE[case.weights]
        assert row["ms"] > case.flops / rate / 1e9
        assert row["ms"] > case.least_bytes / gpu.memory_tbps / 1e9
