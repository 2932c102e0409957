"""What no chip can do is refused with its floor, and what was measured is not."""

import json
from pathlib import Path

import pytest

from kernels.hardware import GPUS
from kernels.measure.request_case import request_case
from kernels.measure.roofline import exceeds_peak, peak_floor_ms
from kernels.model.model_case import case_of_shapes
from kernels.model_files import catalogue
from kernels.model_files.families import estimated_parameters
from workers.documents.gpu_class import gpus_of
from workers.documents.model import ModelManifest
from workers.documents.workload import Sla
from workers.prediction.feasibility import AvailableGpus, impossible, why_several

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "decode.json"


def model(name="llama-3.2-1b", **changes) -> ModelManifest:
    config = catalogue.entry(name)[0] | changes
    kind = {"architecture": config["architectures"][0], "model_type": config["model_type"], "kind": "decoder"}
    source = {"digest": "0" * 64, "source": "catalogue", "files": [], "generated": True}
    parameters = estimated_parameters(config)
    return ModelManifest(name=name, config=config, parameters=parameters, weight_bytes=0, **kind, **source)


def predicted(ms: float) -> str:
    """What stands behind a floor that so many ms are predicted beside."""
    return f" and are predicted to take {ms:.3g} ms (modelled, by the datasheet)"


TWO, FOUR = predicted(1.81), predicted(1.01)
"""Of a token of the 8B on H200s, by their datasheet."""


def refusal(objective, gpu="h200", of=None, precisions=("bf16",), **traffic) -> str:
    sla = Sla.model_validate(
        {"objectives": [objective], "traffic": traffic, "constraints": {"precisions": list(precisions)}}
    )
    return impossible(sla.objectives[0], sla, of or model(), gpu, AvailableGpus())


def test_the_floor_by_hand_is_lower_only_where_rounded_weights_may_be_taken():
    weights, cache = 1_235_814_400 * 2, (128 + 32) * 2 * 16 * 8 * 64 * 2
    assert model().parameters == 1_235_814_400
    text = refusal({"metric": "ttf_n", "n": 64, "limit": 30})
    assert 64 * (weights + cache) / 4.8e12 * 1e3 == pytest.approx(33.03, abs=0.01)
    assert "takes at least 33 ms in bf16" in text
    assert text.startswith("TTF64 p50 of 30.0 ms is impossible on NVIDIA H200")
    assert refusal({"metric": "ttf_n", "n": 64, "limit": 34}) == ""
    promise = {"metric": "ttf_n", "n": 64, "limit": 30}
    assert "in bf16" in refusal(promise, precisions=["bf16", "int8"])
    trained = model().model_copy(update={"generated": False})
    assert refusal(promise, of=trained, precisions=["bf16", "int8"]) == ""
    assert "in int8" in refusal(promise | {"limit": 10}, of=trained, precisions=["bf16", "int8"])


def test_throughput_under_load_is_that_of_all_users():
    promise = {"metric": "throughput", "limit": 20_000}
    assert "it gives at most" in refusal(promise)
    loaded = Sla.model_validate({"objectives": [promise], "load": {"most_users": 64}})
    assert impossible(loaded.objectives[0], loaded, model(), "h200", AvailableGpus()) == ""
    beyond = Sla.model_validate({"objectives": [promise | {"limit": 1e8}], "load": {"most_users": 64}})
    assert "is impossible on NVIDIA H200" in impossible(beyond.objectives[0], beyond, model(), "h200", AvailableGpus())


@pytest.mark.parametrize(
    ("name", "limit", "said"),
    [
        ("llama-3.1-8b", 1.5, f"4 GPUs that divide the model have a floor of 0.782 ms{FOUR}: allow the class h200x4"),
        ("llama-3.1-8b", 2.0, f"2 GPUs that divide the model have a floor of 1.56 ms{TWO}: allow the class h200x2"),
        ("llama-3.1-8b", 1.6, f"4 GPUs that divide the model have a floor of 0.782 ms{FOUR}: allow the class h200x4"),
        ("llama-3.1-8b", 0.9, f"4 GPUs that divide the model have a floor of 0.782 ms{FOUR.replace('and', 'but')}"),
        ("llama-3.1-8b", 0.1, "reading the weights once a token"),
        ("qwen2.5-1.5b", 0.2, "reading the weights once a token"),  # two key-value heads
    ],
)
def test_it_says_how_many_gpus_could_keep_the_promise(name, limit, said):
    assert refusal({"metric": "tpot", "limit": limit}, of=model(name)).endswith(said)


@pytest.mark.parametrize(
    ("gpu", "limit", "said"),
    [
        ("h200x4", 1.5, ""),
        ("h200x2", 1.5, "impossible on 2 NVIDIA H200: it takes at least 1.56 ms in bf16"),
        ("h200", 1.5, f"a floor of 0.782 ms{FOUR}: allow the class h200x4, of which a worker is there"),
        ("h100", 1.5, f"a floor of 1.12 ms{predicted(1.38)}: allow the class h100x4"),
        ("h100x4", 1.5, ""),
        ("h100x2", 1.5, "impossible on 2 NVIDIA H100: it takes at least 2.24 ms in bf16"),
    ],
)
def test_several_gpus_have_a_floor_of_their_own(gpu, limit, said):
    sla = Sla.model_validate(
        {"objectives": [{"metric": "tpot", "limit": limit}], "constraints": {"precisions": ["bf16"]}}
    )
    result = impossible(sla.objectives[0], sla, model("llama-3.1-8b"), gpu, AvailableGpus({"h200x4"}))
    assert result.endswith(said) if gpus_of(gpu) == 1 else said in result
    assert bool(result) == bool(said)
    indivisible = model("qwen2.5-1.5b")
    one, four = (refusal({"metric": "tpot", "limit": 0.5}, gpu=value, of=indivisible) for value in ("h200", "h200x4"))
    assert four == one.replace("NVIDIA H200", "4 NVIDIA H200"), "a model that does not divide has the floor of one"


@pytest.mark.parametrize(
    ("name", "active"),
    [("qwen3-30b-a3b", 3.35e9), ("olmoe-1b-7b", 1.28e9), ("mixtral-8x7b", 12.9e9), ("gpt-oss-20b", 4.19e9)],
)
def test_of_a_mixture_the_experts_of_one_token_are_a_floor(name, active):
    """As of the loaded model, which counts them tensor by tensor."""
    of = model(name)
    result = request_case(of.config, of.parameters, "bf16", 1, 128, 64)
    loaded = case_of_shapes(of.config, of.config["model_type"], "bf16", 1, 128, 64)
    assert result == loaded
    embedding = of.config["vocab_size"] * of.config["hidden_size"]
    assert result.parameters + embedding == pytest.approx(active, rel=0.005)
    floor = result.bytes_per_token / GPUS["h200"].memory_tbps / 1e9
    text = refusal({"metric": "tpot", "limit": 0.98 * floor}, of=of)
    assert "in bf16, reading the weights of its experts once a token" in text
    assert "GPUs that divide the model" in text
    assert refusal({"metric": "tpot", "limit": 1.02 * floor}, of=of) == ""


def test_a_long_prompt_is_bound_by_the_chips_highest_rate():
    layers = 1_235_814_400 - 128_256 * 2048  # tied, so the head is the embedding
    flops = 2 * 8 * (layers * 15 / 16 * 99_999 + 1_235_814_400)
    floor = 1e3 * flops / GPUS["h200"].impossible_tflops / 1e12
    assert refusal({"metric": "ttft", "limit": 0.99 * floor}, batch=8, prompt_tokens=100_000)
    assert not refusal({"metric": "ttft", "limit": 1.01 * floor}, batch=8, prompt_tokens=100_000)


def test_every_metric_that_waits_for_tokens_has_a_floor():
    for metric, limit in {"tpot": 0.4, "e2e": 20, "batch_latency": 20, "throughput": 5000}.items():
        assert "is impossible" in refusal({"metric": metric, "limit": limit})
        slower = limit / 10 if metric == "throughput" else limit * 10
        assert refusal({"metric": metric, "limit": slower}) == ""


@pytest.mark.parametrize(
    ("objective", "changes"),
    [
        ({"metric": "itl", "limit": 0.001}, {}),
        ({"metric": "ttft", "at_least_faster": 1000}, {}),
        ({"metric": "cost_per_mtok", "limit": 0.001}, {}),
        ({"metric": "ttft", "limit": 0.001}, {"gpu": "cpu"}),
        ({"metric": "ttft", "limit": 0.001}, {"of": model("tiny-llama")}),
        ({"metric": "ttft", "limit": 0.001}, {"of": model(num_local_experts=8)}),
        ({"metric": "ttft", "limit": 0.001}, {"of": model("qwen3-30b-a3b", num_experts_per_tok=None)}),
        ({"metric": "ttft", "limit": 0.001}, {"of": model(model_type="nonesuch")}),
    ],
)
def test_where_nothing_bounds_the_time_nothing_is_refused(objective, changes):
    assert refusal(objective, **changes) == ""


def test_what_was_measured_on_an_h200_lies_above_its_floor_and_not_far():
    rows = json.loads(RESULTS.read_text())["rows"]
    shares = []
    for row in rows:
        case, of = row["case"], model(row["case"]["model"])
        result = request_case(
            of.config, of.parameters, *(case[key] for key in ("weights", "batch", "prompt", "tokens"))
        )
        floor = peak_floor_ms(result, GPUS["h200"])
        assert exceeds_peak(result, row["ms"], GPUS["h200"]) is None
        assert exceeds_peak(result, 0.99 * floor, GPUS["h200"])
        shares.append(floor / row["ms"])
    assert 0.8 < max(shares) < 1


@pytest.mark.parametrize(
    ("limit", "gpu", "classes", "said"),
    [
        (1.5, "h200x4", ["h200", "h200x2", "h200x4"], "TPOT p50 of 1.50 ms is impossible on NVIDIA H200: it takes"),
        (1.7, "h200x4", ["h200x2", "h200x4"], "On h200x2 the median TPOT is predicted to be 1.81 ms"),
        (9.0, "h200x2", ["h200", "h200x2"], ""),
        (1.5, "h200", ["h200", "h200x4"], ""),
    ],
)
def test_it_says_why_a_run_takes_several_gpus(limit, gpu, classes, said):
    objective = {"metric": "tpot", "percentile": 50, "limit": limit}
    sla = Sla.model_validate({"objectives": [objective], "constraints": {"precisions": ["bf16"]}})
    result = why_several(sla, model("llama-3.1-8b"), gpu, classes, AvailableGpus())
    assert result.startswith(said)
    assert bool(result) == bool(said)
