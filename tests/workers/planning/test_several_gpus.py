"""Which variants a worker of several GPUs tries over how many, and what it does not try."""

import pytest
import sample_results

from kernels import registry
from kernels.model_files import catalogue
from tests.workers.conftest import manifest, stage_input
from workers.documents.stages import Results, StageInput
from workers.planning import several_gpus


def document(gpu_class: str, model: str = "llama-3.1-8b", limit: float = 1000) -> StageInput:
    config = catalogue.entry(model)[0]
    made = stage_input("compose", objectives=[{"metric": "tpot", "limit": limit}], constraints={"precisions": ["bf16"]})
    of = manifest(config).model_copy(update={"parameters": 8_030_000_000})
    return made.model_copy(update={"gpu_class": gpu_class, "model": of})


@pytest.mark.parametrize(
    ("name", "gpu_class", "found"),
    [
        ("megakernel", "h200", [1]),
        ("megakernel", "h200x2", [1, 2]),
        ("megakernel_fp8", "h200x4", [1, 2, 4]),
        ("compiled", "h200x4", [1]),
        ("megakernel", "cpu", [1]),
    ],
)
def test_only_what_divides_a_model_is_tried_on_several(name: str, gpu_class: str, found: list[int]) -> None:
    assert several_gpus.counts(registry.variant(name), document(gpu_class)) == found


def test_a_model_that_does_not_divide_is_refused_by_its_size() -> None:
    refusal = several_gpus.refusal(document("h200x4", "qwen2.5-1.5b"), 4)
    assert refusal.reason == "num_key_value_heads 2: 4 GPUs need a multiple of 4"
    assert several_gpus.refusal(document("h200x4", "qwen2.5-1.5b"), 1) is None


def test_what_cannot_keep_the_promise_is_not_tried_and_what_would_is_predicted_by_the_best_rates_known() -> None:
    refusal = several_gpus.refusal(document("h200x4", limit=1.5), 2)
    assert "TPOT p50 of 1.50 ms is impossible on 2 NVIDIA H200" in refusal.reason
    assert "(modelled, by the datasheet): allow" in refusal.reason
    assert several_gpus.refusal(document("h200x4", limit=1.5), 4) is None
    measured = Results(profile=sample_results.results().profile)
    refusal = several_gpus.refusal(document("h200x4", limit=1.5).model_copy(update={"results": measured}), 2)
    assert "(modelled, by measured rates): allow" in refusal.reason
