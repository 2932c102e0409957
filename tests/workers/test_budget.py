"""A workload's minutes: what a stage is granted, and the sentence about what the stages took."""

import pytest

from workers import budget
from workers.documents.workload import Workload


def of(minutes, **more):
    promise = {"metric": "ttft", "limit": 100}
    stated = {"model": "tiny", "objectives": [promise], "constraints": {"minutes": minutes}}
    return Workload.model_validate(stated | more)


def test_kept_minutes_are_said_in_one_sentence():
    assert budget.sentence(of(3), {"admit": 10, "verify": 150}) == (
        "The stages took 2 min 40 s of the 3 min that the workload allows."
    )


def test_a_run_that_took_longer_says_which_stages_and_why():
    taken = {"admit": 9.0, "baseline": 20.4, "profile": 60.0, "explore": 12.0, "compose": 19.0, "verify": 240.0}
    said = budget.sentence(of(2), taken)
    assert said.startswith("The stages took 6 min, where the workload allows 2 min. Longer than planned took ")
    assert "profile 1 min of 20 s (loading the model and the trace of a request)" in said
    assert "verify 4 min of 20 s (nine pairs of requests, and quality over" in said
    assert "compose" not in said
    assert "baseline" not in said


def test_many_short_stages_are_too_long_together():
    taken = dict.fromkeys(("admit", "baseline", "profile", "explore", "compose", "verify"), 20.0)
    assert budget.sentence(of(1), taken) == (
        "The stages took 2 min, where the workload allows 1 min. "
        "Each kept to its share, or to the 20 s that every stage gets."
    )


def test_nothing_is_said_before_a_stage_has_finished():
    assert budget.sentence(of(2), {}) == ""


def test_time_that_a_stage_leaves_goes_to_those_after_it():
    assert budget.granted("baseline", of(6), 2) == pytest.approx(358 * budget.SHARES["baseline"] / 0.95)
    assert budget.granted("verify", of(6), 900) == budget.LEAST_SECONDS


def test_eight_minutes_reach_three_processes_with_another_engine_on_an_h200():
    """Stage times of a run on an H200 (llama-3.2-1b-in-7-minutes.json), vLLM's start and a build's overrun added."""
    taken = {"admit": 15, "baseline": 40, "profile": 50}
    taken["explore"] = budget.granted("explore", of(8), 105)
    compose = budget.granted("compose", of(8), sum(taken.values()))
    vllm, until_compiled, grace = 50, 75, 20
    assert until_compiled + vllm <= compose
    taken["compose"] = compose + grace
    verify, first, further = budget.granted("verify", of(8), sum(taken.values())), 49, 36
    assert verify >= first + 2 * further


def test_the_load_stage_has_its_share_and_more_where_vllm_must_start():
    load = {"load": {"most_users": 4}}
    assert budget.granted("load", of(5), 0) == budget.LEAST_SECONDS
    assert budget.granted("baseline", of(7), 0) > budget.granted("baseline", of(7, **load), 0)
    assert budget.granted("load", of(7, **load), 120) == 300
    with_vllm = of(7, **load, baseline_runner="vllm")
    assert budget.granted("verify", with_vllm, 0) < budget.granted("verify", of(7, **load), 0)
