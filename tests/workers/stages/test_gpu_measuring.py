"""The profile and the verification on a real GPU, under CUDA graphs."""

import pytest
import torch

from kernels.hardware import class_of
from kernels.plan import Plan
from tests.workers.conftest import TINY, manifest, stage_input
from workers.documents.stages import ComposeResult, Results
from workers.stages import profile, verify

pytestmark = pytest.mark.gpu

SHAPE = {"traffic": {"prompt_tokens": 64, "output_tokens": 32}, "objectives": [{"metric": "ttft", "limit": 10_000}]}


@pytest.fixture
def gpu_class():
    return class_of(torch.cuda.get_device_name())


def test_kernels_are_attributed_in_eager_and_under_cuda_graphs(context, gpu_class):
    document = stage_input("profile", gpu_class=gpu_class, baseline_runner="compiled", **SHAPE)
    result = profile.run(document, context)
    assert result.attributed_share >= 0.95
    assert result.replayed_share >= 0.95, [(row.op, row.phase, row.kernel, row.ms) for row in result.replayed]
    assert {row.phase for row in result.replayed if row.bound != "idle"} == {"prefill", "decode"}
    linear = [row for row in result.replayed if row.op.startswith("linear") and row.phase == "decode"]
    assert linear
    assert result.environment.telemetry.sm_mhz_median is None or result.environment.telemetry.sm_mhz_median > 100


def test_a_compiled_plan_is_verified_against_eager(context, gpu_class):
    model = manifest(TINY | {"dtype": "bfloat16"})
    results = Results()
    environment = profile.run(stage_input("profile", gpu_class=gpu_class, **SHAPE), context).environment
    plan = Plan(model_digest=model.digest, gpu=gpu_class, runner="compiled", dtype="bf16")
    results.compose = ComposeResult(environment=environment, trials=[], plan=plan.model_dump())
    result = verify.run(stage_input("verify", model, results, gpu_class=gpu_class, **SHAPE), context)
    assert result.verdict == "met", result.sentence
    assert result.recommended, result.sentence
    assert result.speedup.ratio.value > 1
    assert result.quality.tokens >= 4096
