"""The load of `benchmarks.web_load` in small: real sign-ins, pages and submits on PostgreSQL, without an error."""

import argparse

from benchmarks import web_load
from benchmarks.web_clients import SUBMIT_SHARE, schedule


def test_a_few_people_meet_no_error_on_postgresql() -> None:
    document = web_load.measure(argparse.Namespace(clients=6, rate=15.0, seconds=4.0, seed=8))
    assert document["errors"] == []
    groups = document["groups"]
    assert groups["submit"]["requests"] >= 3
    assert groups["reads"]["requests"] >= 40
    assert 0 < groups["reads"]["p50_ms"] <= groups["reads"]["p99_ms"] <= groups["reads"]["max_ms"]
    assert document["sign_ins"]["count"] == 6


def test_the_schedule_is_of_the_seed_and_as_fast_as_asked() -> None:
    plan = schedule(clients=300, rate=100, seconds=60, seed=1)
    assert plan == schedule(clients=300, rate=100, seconds=60, seed=1)
    assert abs(len(plan) - 6000) < 250
    assert abs(sum(each.kind == "submit" for each in plan) / len(plan) - SUBMIT_SHARE) < 0.02
    assert {each.client for each in plan} == set(range(300))
