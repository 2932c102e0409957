"""Comparing runs: on the page, whose address holds the choice, and by the command."""

import re

import pytest
from django.urls import reverse

from tests import sample_results, sample_runs
from workbench.runs.models import StageRun
from workers.documents.measurement import Interval
from workers.stats import intervals

pytestmark = pytest.mark.django_db


def _compare(client, runs):
    return client.get(reverse("compare"), {"run": [str(run.id) for run in runs]})


@pytest.fixture
def runs(organisation, engineer):
    return [sample_runs.run(organisation, engineer) for _ in range(3)]


def test_runs_side_by_side_no_more_than_six_and_no_foreign_ones(browser, engineer, organisation, runs, foreigner):
    page = _compare(browser(engineer), runs[:2])
    assert [section.title for section in page.context["sections"]] == [
        *("What was asked", "Objectives", "TTF64", "TPOT", "End-to-end latency"),
        *("Operations", "Plans", "Where it was measured", "Cost"),
    ]
    for latency in page.context["sections"][2:5]:
        assert [trace["name"][0] for trace in latency.figure["data"]] == ["A", "B"]
    failed = sample_runs.run(organisation, engineer, "failed", "profile")
    page = _compare(browser(engineer), [runs[0], failed])
    assert "differ in their devices" in page.content.decode(), "results that one of them lacks"
    more = [sample_runs.run(organisation, engineer, "failed", "admit") for _ in range(3)]
    page = _compare(browser(engineer), [*runs, failed, *more])
    assert (len(page.context["sides"]), page.context["left_out"]) == (6, 1)
    assert browser(engineer).get("/compare/?run=x&run=&run=1").status_code == 200
    page = _compare(browser(foreigner), runs[:2])
    assert page.context["sides"] == []
    assert page.context["left_out"] == 2
    assert runs[0].workload.name not in page.content.decode()


def test_the_speedup_has_its_interval_and_a_difference_takes_intervals_apart(browser, engineer, runs):
    row = StageRun.objects.get(run=runs[1], stage="verify")
    row.result["speedup"]["ratio"] = {"value": 2.0, "low": 1.9, "high": 2.1}
    row.save()
    objectives = _compare(browser(engineer), runs[:3]).context["sections"][1]
    gains = [text for text, _ in objectives.rows[-1]]
    assert gains[:2] == ["Speedup over its own before", "3.47x (3.46 to 3.49)"]
    assert gains[2] == "2.00x (1.90 to 2.10): less than A"
    assert gains[3].endswith(": no difference from A")


def test_medians_differ_in_per_cent_with_an_interval_and_the_best_are_marked(browser, engineer, runs):
    for run, factor in ((runs[1], 0.5), (runs[2], 1.0001)):
        row = StageRun.objects.get(run=run, stage="verify")
        ttf = row.result["after"][0]
        ttf["samples"] = [factor * sample for sample in ttf["samples"]]
        row.save()
    page = _compare(browser(engineer), runs[:3])
    ttf = next(section for section in page.context["sections"] if section.title == "TTF64")
    assert [name for name, _ in ttf.headers] == ["Percentile", "A", "B, best", "C"]
    name, first, half, same = (text for text, _ in ttf.rows[-2])
    assert (name, first) == ("Median, difference from A, 95 %", "0 %")
    low, high = map(float, re.fullmatch(r"-50\.0 % \((-[\d.]+) % to (-[\d.]+) %\)", half).groups())
    assert -60 < low < -50 < high < -40
    assert re.fullmatch(r"\+0\.0 % \(-[\d.]+ % to \+[\d.]+ %\)", same)
    tpot = next(section for section in page.context["sections"] if section.title == "TPOT")
    assert [name for name, _ in tpot.headers] == ["Percentile", "A", "B", "C"], "equal runs have no best one"


def test_the_difference_of_processes_is_wider_than_that_of_their_requests():
    verify = sample_results.results().verify
    outcome = verify.outcomes[0].model_copy(update={"medians": [80.0, 82.0, 90.0]})
    spread = verify.model_copy(update={"outcomes": [outcome]})
    key = ("ttf_n", 64)
    whole = intervals.medians(sample_results.results().model_copy(update={"verify": spread}))[key]
    assert whole.low < 80 < 90 < whole.high
    same = Interval(value=100, low=90, high=110)
    twice = intervals.difference(same, Interval(value=200, low=180, high=220))
    assert (round(twice.value, 6), round(twice.low, 4), round(twice.high, 4)) == (1, 0.7351, 1.3053)


def test_what_was_asked_stands_beside_and_traffic_says_how_it_differs(browser, engineer, runs):
    workload = runs[1].workload
    workload.document["traffic"] |= {"prompt_tokens": 256, "batch": 8}
    workload.document["constraints"] = {"minutes": 30}
    workload.save()
    page = _compare(browser(engineer), runs[:2])
    asked = {row[0][0]: [text for text, _ in row[1:]] for row in page.context["sections"][0].rows}
    assert asked["Prompt tokens"] == ["128", "256"]
    assert asked["Minutes"] == ["6", "30"]
    assert asked["Promises"][0] == asked["Promises"][1] == "TTF64 p50 ≤ 100 ms, TPOT p95 ≤ 2.00 ms"
    assert "Output tokens" not in asked, "only what differs of the traffic"
    words = "differ in their traffic (prompt tokens A 128, B 256; batch A 1, B 8): a difference"
    assert words in page.content.decode()


def test_the_loads_that_hold_stand_side_by_side_and_a_price_names_its_load(browser, engineer, organisation, runs):
    loaded = sample_runs.run(organisation, engineer, load=True)
    page = _compare(browser(engineer), [loaded, runs[0]])
    sections = {section.key: section for section in page.context["sections"]}
    rows = {row[0][0]: [text for text, _ in row[1:]] for row in sections["load"].rows}
    assert rows["After, every promise holds"][0].startswith("20 users, ")
    assert rows["After, every promise holds"][0].endswith("(this workbench's server, the plan's kernels)")
    assert rows["Before, every promise holds"] == ["none is shown to hold (generate of transformers in batches)", "–"]
    assert rows["Before, most tokens per second"][0].startswith("4 users, ")
    cost = {row[0][0]: [text for text, _ in row[1:]] for row in sections["cost"].rows}["A million tokens, after"]
    assert cost[0].endswith("per hour, the highest load that holds, 20 requests at once")
    assert cost[1].endswith("per hour, one request at a time")
    assert sections["cost"].note.startswith("These prices stand at unlike loads")
