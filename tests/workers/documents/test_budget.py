"""A workload's minutes: what a stage is granted, and the sentence about what the stages took."""

import pytest

from tests.sample_results import of_baseline
from workers.documents import budget
from workers.documents.stages import GPU_STAGES, Results
from workers.documents.workload import Workload

NONE = Results()


def of(minutes, **kwargs):
    promise = {"metric": "ttft", "limit": 100}
    stated = {"model": "tiny", "objectives": [promise], "constraints": {"minutes": minutes}}
    return Workload.model_validate(stated | kwargs)


def test_a_run_says_the_minutes_that_it_took_and_which_stages_took_longer():
    assert "took 2 min 40 s of the 3 min" in budget.sentence(of(3), {"admit": 10, "verify": 150}, NONE)
    taken = {"admit": 9.0, "baseline": 20.4, "profile": 60.0, "explore": 12.0, "compose": 19.0, "verify": 240.0}
    text = budget.sentence(of(2), taken, NONE)
    assert text.startswith("The stages took 6 min, where the workload allows 2 min. ")
    assert "profile 1 min of 20 s" in text
    assert "verify 4 min of 1 min 15 s" in text
    assert "compose" not in text
    assert "baseline" not in text


def test_a_stage_may_spend_all_but_what_later_stages_need_and_a_late_plan_is_verified_unless_minutes_are_strict():
    needed = budget.NEEDED_SECONDS
    assert budget.seconds_granted("compose", of(6), 60, NONE) == 300 - needed["verify"]
    assert budget.seconds_granted("verify", of(6), 100, NONE) == 260
    part = 80 * needed["compose"] / (needed["compose"] + needed["verify"])
    assert budget.seconds_granted("compose", of(1.5), 10, NONE) == pytest.approx(part), (
        "less is left than all stages need"
    )
    assert budget.seconds_granted("profile", of(0.5), 25, NONE) == budget.MIN_SECONDS
    late, strict = of(3), of(3, constraints={"minutes": 3, "strict_minutes": True})
    assert budget.seconds_granted("verify", late, 200, NONE) == budget.NEEDED_SECONDS["verify"]
    assert budget.seconds_granted("verify", late, 350, NONE) == budget.MIN_SECONDS, "twice the minutes are the most"
    assert budget.seconds_granted("verify", strict, 200, NONE) == budget.MIN_SECONDS


@pytest.mark.parametrize(
    ("gpu_class", "seconds", "kept", "verify"),
    [("h200", 20, 75, 75), ("cpu", 0.5, 75, 75), ("cpu", 2, 120, 120), ("cpu", 6, 180, 360), ("cpu", 20, 180, 520)],
)
def test_slow_requests_on_a_cpu_keep_time_for_verify_which_goes_on_beyond_the_minutes(gpu_class, seconds, kept, verify):
    results, strict = of_baseline(seconds, gpu_class), of(6, constraints={"minutes": 6, "strict_minutes": True})
    assert budget.seconds_granted("compose", of(6), 60, results) == 300 - kept, "half of the minutes at most"
    assert budget.seconds_granted("verify", of(6), 200, results) == max(160, verify), "twice the minutes at most"
    assert budget.seconds_granted("verify", strict, 200, results) == 160
    if gpu_class == "h200":
        for stage in GPU_STAGES:
            assert budget.seconds_granted(stage, of(6), 100, results) == budget.seconds_granted(stage, of(6), 100, NONE)


def test_the_load_stage_has_its_share_and_more_where_vllm_must_start():
    load = {"load": {"most_users": 4}}
    assert budget.seconds_granted("load", of(5), 0, NONE) == budget.MIN_SECONDS
    assert budget.seconds_granted("baseline", of(7), 0, NONE) > budget.seconds_granted(
        "baseline", of(7, **load), 0, NONE
    )
    assert budget.seconds_granted("load", of(7, **load), 120, NONE) == 300
    with_vllm = of(7, **load, baseline_runner="vllm")
    assert budget.seconds_granted("verify", with_vllm, 0, NONE) < budget.seconds_granted(
        "verify", of(7, **load), 0, NONE
    )
