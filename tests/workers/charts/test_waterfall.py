"""From kernel to dollar: the steps add up, and none is invented."""

import json
from pathlib import Path

import pytest
import sample_held_loads
from sample_results import manifest, results, workload
from sample_two_gpus import two_gpus

from workers.charts import waterfall
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial, Results
from workers.stages.price import price

FILE = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "llama-3.2-1b.json"


@pytest.fixture
def h200() -> Results:
    """A committed run that chose the megakernel; its compose took the kernels plan apart."""
    return Results.model_validate(json.loads(FILE.read_text())["results"])


def added(found: list[waterfall.WaterfallBar]) -> float:
    return sum(item.saved for item in found if item.kind in ("change", "residual"))


def test_the_steps_of_a_committed_run_add_up(h200):
    result = waterfall.steps(h200)
    groups = ["compact decoder", "attention", "products", "norms and gates", "head and sampling"]
    ends = [waterfall.LAUNCH, "residual", "after", "floor"]
    assert [item.name for item in result] == ["before", waterfall.HOST, *groups, *ends]
    outcome = h200.verify.outcomes[0]
    assert added(result) == pytest.approx(outcome.before - outcome.after)


def test_what_was_measured_is_a_step_of_its_own_and_nothing_else(h200):
    plan = h200.compose.trials[3].plan
    times = {"compact decoder": 120.0, "attention": 100.0, "products": 60.0, "head and sampling": 45.6}
    h200.compose.steps = [
        PlanTrial(label=name, plan=plan, primary=Interval(value=ms, low=ms, high=ms), gate="pass")
        for name, ms in times.items()
    ]
    result = {step.name: step for step in waterfall.steps(h200)}
    assert result["products"].saved == pytest.approx(40)
    assert result["attention"].saved == pytest.approx(20)
    assert waterfall.LIBRARY not in result
    assert added(list(result.values())) == pytest.approx(result["before"].end - result["after"].end)
    h200.compose.steps = []
    h200.compose.trials = [trial for trial in h200.compose.trials if trial.label not in ("cuda_graphs", "kernels")]
    assert [step.name for step in waterfall.steps(h200)][1:3] == [waterfall.LAUNCH, "residual"]


def test_two_gpus_are_a_step_of_their_own_and_no_dollar_charges_both_before_it():
    known = two_gpus()
    assert [step.name for step in waterfall.steps(known)] == ["before", waterfall.LAUNCH, "2 GPUs", "residual", "after"]
    assert waterfall.usd_per_thousand(known) is None
    one = known.price.economics.after.model_copy(update={"gpus": 1})
    whole = known.verify.outcomes[0].objective.model_copy(update={"metric": "e2e"})
    known.verify.outcomes[0] = known.verify.outcomes[0].model_copy(update={"objective": whole})
    assert waterfall.usd_per_thousand(known) is None
    known.price.economics.after = one
    assert waterfall.usd_per_thousand(known)


def test_dollars_follow_where_the_metric_is_the_whole_request():
    known = results()
    usd = waterfall.usd_per_thousand(known)
    hour = known.price.economics.after.usd_per_hour
    assert usd == pytest.approx(hour / 3600)  # 1,000 requests of 1 ms are one second of the GPU
    headers, rows = waterfall.table(known)
    assert headers[-1] == "USD per thousand requests"
    assert rows[0][-1] == pytest.approx(known.verify.outcomes[0].before * usd)
    first = known.verify.outcomes[0]
    part = first.objective.model_copy(update={"n": 32})
    known.verify.outcomes[0] = first.model_copy(update={"objective": part})
    assert waterfall.usd_per_thousand(known) is None
    known.verify.recommended = False
    assert waterfall.figure(known) is None, "no change"


def test_batching_is_the_last_step_in_dollars():
    known = results()
    load = sample_held_loads.under_load()
    known.load = load
    known.price = price(workload(), known.price.book, "h200", known.verify, manifest(), load)
    _, rows = waterfall.table(known)
    assert rows[-1][:3] == ["batching, 8 at once", None, None]
    hour = known.price.economics.after.usd_per_hour
    assert rows[-1][-1] == pytest.approx(hour / 3600 / (4000 / 64) * 1000)
    after = next(row for row in rows if row[0] == "after")
    assert rows[-1][-2] == pytest.approx(rows[-1][-1] - after[-1])
