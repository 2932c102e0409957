"""A workload's minutes: what a stage is granted, and the sentence about what the stages took."""

import pytest

from workers.documents import budget
from workers.documents.workload import Workload


def of(minutes, **more):
    promise = {"metric": "ttft", "limit": 100}
    stated = {"model": "tiny", "objectives": [promise], "constraints": {"minutes": minutes}}
    return Workload.model_validate(stated | more)


def test_a_run_says_the_minutes_that_it_took_and_which_stages_took_longer():
    assert "took 2 min 40 s of the 3 min" in budget.sentence(of(3), {"admit": 10, "verify": 150})
    taken = {"admit": 9.0, "baseline": 20.4, "profile": 60.0, "explore": 12.0, "compose": 19.0, "verify": 240.0}
    said = budget.sentence(of(2), taken)
    assert said.startswith("The stages took 6 min, where the workload allows 2 min. ")
    assert "profile 1 min of 20 s" in said
    assert "verify 4 min of 1 min 15 s" in said
    assert "compose" not in said
    assert "baseline" not in said


def test_a_stage_may_spend_all_but_what_later_stages_need_and_a_late_plan_is_verified_unless_minutes_are_strict():
    needed = budget.NEEDED_SECONDS
    assert budget.granted("compose", of(6), 60) == 300 - needed["verify"]
    assert budget.granted("verify", of(6), 100) == 260
    part = 80 * needed["compose"] / (needed["compose"] + needed["verify"])
    assert budget.granted("compose", of(1.5), 10) == pytest.approx(part), "less is left than all stages need"
    assert budget.granted("profile", of(0.5), 25) == budget.LEAST_SECONDS
    late, strict = of(3), of(3, constraints={"minutes": 3, "strict_minutes": True})
    assert budget.granted("verify", late, 200) == budget.NEEDED_SECONDS["verify"]
    assert budget.granted("verify", late, 350) == budget.LEAST_SECONDS, "twice the minutes are the most"
    assert budget.granted("verify", strict, 200) == budget.LEAST_SECONDS


def test_the_load_stage_has_its_share_and_more_where_vllm_must_start():
    load = {"load": {"most_users": 4}}
    assert budget.granted("load", of(5), 0) == budget.LEAST_SECONDS
    assert budget.granted("baseline", of(7), 0) > budget.granted("baseline", of(7, **load), 0)
    assert budget.granted("load", of(7, **load), 120) == 300
    with_vllm = of(7, **load, baseline_runner="vllm")
    assert budget.granted("verify", with_vllm, 0) < budget.granted("verify", of(7, **load), 0)
