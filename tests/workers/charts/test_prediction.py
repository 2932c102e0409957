"""What was predicted stands beside what was measured, of the same kind of plan, or a sentence says why not."""

import pytest
import sample_loads
from sample_no_change import no_change
from sample_results import PREDICTED, results

from workers.charts.prediction import compare_with_measured, rows, words
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction

TPOT = PredictedFigure(metric="tpot", value=0.9)


def changed(**verify):
    result = results()
    return result.model_copy(update={"verify": result.verify.model_copy(update=verify)})


def test_the_error_is_of_the_measured_median():
    result = results()
    measured = {item.metric: item.percentiles["p50"] for item in result.verify.after}
    ttf, tpot = compare_with_measured(result)
    assert (ttf.label, tpot.label) == ("TTF64 p50", "TPOT p50")
    assert ttf.error == pytest.approx(60 / measured["ttf_n"] - 1)
    assert rows(result)[0].error == f"{100 * ttf.error:+.0f} %"
    assert words(result) == PREDICTED.assumptions


def with_server(settings):
    """The sample under load, its plan's server with these settings."""
    result = sample_loads.results()
    server = result.load.after.server.model_copy(update={"settings": settings})
    after = result.load.after.model_copy(update={"server": server})
    return result.model_copy(update={"load": result.load.model_copy(update={"after": after})})


def test_throughput_is_compared_at_the_load_that_was_predicted_where_the_server_took_the_plan():
    result = with_server({"max_num_seqs": 64})
    load = next(item for item in result.load.after.limit.loads if item.users == 2)
    throughput = compare_with_measured(result)[-1]
    assert throughput.label == "Throughput of 2 users at once"
    assert throughput.measured == load.tokens_per_second
    assert [item.label for item in compare_with_measured(with_server({}))] == ["TTF64 p50", "TPOT p50"]


def test_a_plan_is_held_against_the_prediction_of_its_precision_and_runner():
    fp8 = changed(plan={"runner": "compiled", "options": {"weights": "fp8"}})
    assert [item.predicted for item in compare_with_measured(fp8)] == [0.5]
    assert compare_with_measured(changed(plan={"runner": "compiled", "tensor_parallel_size": 2})) == []
    nvfp4 = changed(plan={"runner": "compiled", "options": {"weights": "nvfp4"}})
    assert (rows(nvfp4)[0].label, rows(nvfp4)[0].measured) == ("TTF64 p50, compiled in bf16", "–")
    assert "was not among" in words(nvfp4)[0]
    result = results()
    named = [PredictedPlan(runner=value, weights="bf16", figures=[TPOT]) for value in ("kernels", "cuda_graphs")]
    admit = result.admit.model_copy(update={"predicted": Prediction(plans=named)})
    graphs = result.verify.model_copy(update={"plan": {"runner": "compiled", "options": {"compile": False}}})
    compiled = result.verify.model_copy(update={"plan": {"runner": "compiled"}})
    assert len(compare_with_measured(result.model_copy(update={"admit": admit, "verify": graphs}))) == 1
    other = result.model_copy(update={"admit": admit, "verify": compiled})
    assert compare_with_measured(other) == []
    assert "was not among" in words(other)[0]
    assert rows(other)[0].label == "TPOT p50, kernels in bf16"


def test_no_error_counts_where_there_is_no_plan_or_the_figures_are_void():
    environment = results().verify.environment
    seen = environment.telemetry.model_copy(update={"others_gpu_seconds": 1.0})
    void = changed(environment=environment.model_copy(update={"telemetry": seen}))
    none = no_change().model_copy(update={"admit": results().admit})
    early = results().model_copy(update={"verify": None})
    for result, said in ((void, "figures are void"), (none, "No change is recommended"), (early, "Nothing has been")):
        assert compare_with_measured(result) == []
        assert said in words(result)[0]
