"""The kernels plan taken apart: every step is a plan of its own, and the last is the whole."""

import json
from pathlib import Path

from kernels.plan import Plan
from workers.documents.measurement import Interval
from workers.documents.stages import PlanTrial
from workers.planning.steps import MIN_SECONDS, REST, RUNNER, cumulative_plans, measure

FILE = Path(__file__).parents[3] / "benchmarks" / "results" / "h200" / "llama-3.2-1b.json"


def kernels_plan() -> Plan:
    trials = json.loads(FILE.read_text())["results"]["compose"]["trials"]
    return Plan.model_validate(next(trial["plan"] for trial in trials if trial["label"] == "kernels"))


class Tries:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def attempt(self, label, plan, make, times, lossy) -> PlanTrial:
        self.asked.append(label)
        return PlanTrial(label=label, plan=plan.model_dump(), primary=Interval(value=50, low=50, high=50), gate="pass")


def test_each_step_adds_one_group_and_the_last_is_the_plan_unless_it_has_one_group():
    plan = kernels_plan()
    result = cumulative_plans(plan)
    assert [name for name, _ in result] == [RUNNER, "attention", "products", "norms and gates", REST]
    bare = result[0][1]
    assert [op.variant.startswith("torch_") for op in bare.ops] == [True]
    counts = [len(part.ops) for _, part in result[1:]]
    assert counts == sorted(counts)
    assert {op.op for op in result[1][1].ops} == {"step_attention", "rope", "attention"}
    assert result[-1][1].ops == plan.ops
    assert cumulative_plans(plan.model_copy(update={"ops": []})) == []


def test_the_whole_is_not_measured_again_and_no_step_where_time_lacks():
    plan = kernels_plan()
    whole = PlanTrial(label="kernels", plan=plan.model_dump(), primary=Interval(value=45, low=45, high=45), gate="pass")
    tries = Tries()
    result = measure(tries, None, plan, whole, MIN_SECONDS)
    assert tries.asked == [RUNNER, "attention", "products", "norms and gates"]
    assert [item.label for item in result] == [*tries.asked, REST]
    assert result[-1].primary == whole.primary
    assert measure(tries, None, plan, whole, MIN_SECONDS - 1) == []
    failed = whole.model_copy(update={"gate": "fail"})
    assert measure(tries, None, plan, failed, MIN_SECONDS) == []
