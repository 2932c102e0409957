"""The verdict on variants of a model with weights of its own, by the stages themselves."""

import json
from pathlib import Path

import pytest

from benchmarks import precisions
from kernels import registry
from kernels.runners import by_name
from kernels.runners.whole_model import WholeModel
from workers.measuring import alternation

SAMPLE = Path(__file__).parents[2] / "samples" / "voice-agent"


class Planted(WholeModel):
    """In place of the megakernel, which needs a GPU."""

    name, runner_name = "megakernel", "megakernel"
    summary = "planted"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KERNELS_VLLM_PYTHON", raising=False)
    registry.variants()
    monkeypatch.setitem(registry._variants, "megakernel", Planted())
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", "kernels.runners.kernels_runner.KernelsRunner")
    monkeypatch.setattr(precisions, "TRAFFIC", {"prompt_tokens": 32, "output_tokens": 8})
    monkeypatch.setattr(alternation, "LEAST_SECONDS", 0.5)


def test_a_variant_is_verified_with_the_scores_on_the_models_text(planted: None, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    precisions.main([str(SAMPLE), str(result), "--variant", "megakernel", "--variant", "cuda_graphs", "--seconds", "5"])
    document = json.loads(result.read_text())
    judged, refused = document["rows"]
    assert document["model"] == "voice-agent"
    assert document["commit"]
    check = judged["verify"]["checks"][0]
    text = check["quality"]["text"]
    assert text["accuracy_after"]["low"] < text["accuracy_after"]["value"] < text["accuracy_after"]["high"]
    assert text["perplexity_ratio"]["value"] == pytest.approx(1, abs=0.01)
    assert (refused["trial"]["gate"], "verify" in refused) == ("refused", False)
