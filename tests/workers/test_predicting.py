"""What is predicted before a run: the formula by hand, its distance from what was measured, and what it leaves out."""

import json
from pathlib import Path

import pytest

from tests.workers.test_promises import model
from workers.documents.measurement import Ceilings
from workers.documents.workload import Workload
from workers.predicting import predict

RUN = Path(__file__).parents[2] / "benchmarks/results/h200/llama-3.2-1b.json"
PARAMETERS, CACHE = 1_235_814_400, (128 + 32) * 2 * 16 * 8 * 64 * 2
CEILINGS = Ceilings(read_tbps=4.0, copy_tbps=4.0, matrix_tflops={"bf16": 500.0}, launch_us=1)


def predicted(of=None, gpu_class="h200", ceilings=None, lower=(), **changes):
    traffic = {"prompt_tokens": 128, "output_tokens": 64} | changes.pop("traffic", {})
    stated = {"model": "m", "traffic": traffic, "objectives": [{"metric": "ttf_n", "n": 64, "limit": 100}]} | changes
    return predict(Workload.model_validate(stated), of or model(), gpu_class, ceilings, "bf16", lower)


def values(plan):
    return {(each.metric, each.n, each.users): each.value for each in plan.figures}


def test_the_formula_by_hand():
    (plan,) = predicted(ceilings=CEILINGS, load={"most_users": 5}).plans
    first = max(2 * PARAMETERS * 128 / 500e12, 2 * PARAMETERS / 4e12) * 1e3
    step = (2 * PARAMETERS + CACHE) / 4e12 * 1e3
    four = 4 * first + 63 * (2 * PARAMETERS + 4 * CACHE) / 4e12 * 1e3
    found = values(plan)
    assert found[("ttft", None, None)] == pytest.approx(first)
    assert found[("tpot", None, None)] == pytest.approx(step)
    assert found[("ttf_n", 64, None)] == found[("e2e", None, None)] == pytest.approx(first + 63 * step)
    assert found[("throughput", None, 4)] == pytest.approx(4 * 64 / four * 1e3)
    assert [users for _, _, users in found if users] == [1, 2, 4]


def test_lower_precision_and_more_gpus_have_predictions_of_their_own():
    found = predicted(model("llama-3.1-8b"), "h200x4", lower=["fp8"])
    steps = {(each.gpus, each.weights): values(each)[("tpot", None, None)] for each in found.plans}
    assert [*steps] == [(gpus, weights) for gpus in (1, 2, 4) for weights in ("bf16", "fp8")]
    assert steps[1, "bf16"] == pytest.approx(4 * steps[4, "bf16"])
    assert steps[1, "bf16"] > 1.9 * steps[1, "fp8"]
    assert any("divide bytes and FLOPs evenly" in each for each in found.assumptions)
    undivided = predicted(model("qwen2.5-1.5b"), "h200x4").plans
    assert [each.gpus for each in undivided] == [1, 2]  # two key-value heads


def test_what_an_h200_measured_is_near_what_its_datasheet_predicts():
    run = json.loads(RUN.read_text())
    measured = {(each["metric"], each["n"]): each["percentiles"]["p50"] for each in run["results"]["verify"]["after"]}
    found = values(predicted().plans[0])
    for metric, n in (("ttf_n", 64), ("tpot", None)):
        assert 0.8 < found[metric, n, None] / measured[metric, n] < 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu_class": "cpu"}, "no datasheet and no earlier run tells its rates"),
        ({"of": model("tiny-llama")}, "of weights that a cache may hold"),
        ({"of": model(num_local_experts=8)}, "of a mixture of experts"),
        ({"of": model().model_copy(update={"kind": "encoder"})}, "Only models that generate text"),
    ],
)
def test_what_is_not_predicted_has_a_sentence(changes, said):
    found = predicted(**changes)
    assert found.plans == []
    assert said in " ".join(found.missing)


def test_clients_who_wait_and_other_traffic_leave_figures_out():
    clients = predicted(traffic={"concurrency": 4})
    assert clients.plans[0].figures == []
    assert "4 clients wait for each other" in clients.missing[0]
    open_loop = {"arrivals": {"kind": "poisson", "rate": 5}}
    poisson = predicted(traffic=open_loop, load={"most_users": 4})
    assert all(each.users is None for each in poisson.plans[0].figures)
    assert "traffic with arrivals" in poisson.missing[0]
