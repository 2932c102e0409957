"""Comparing runs: on the page, whose address holds the choice, and by the command."""

import re

import pytest
from django.urls import reverse

from tests import sample_results, sample_runs
from workbench.runs.models import StageRun
from workers.charts import comparison

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(organisation, engineer):
    return [sample_runs.run(organisation, engineer) for _ in range(7)]


def _compare(client, runs):
    return client.get(reverse("compare"), {"run": [str(run.id) for run in runs]})


def test_two_runs_side_by_side(browser, engineer, runs):
    page = _compare(browser(engineer), runs[:2])
    assert [section.title for section in page.context["sections"]] == [
        "Objectives",
        "TTF64",
        "TPOT",
        "End-to-end latency",
        "Operations",
        "Plans",
        "Where it was measured",
        "Cost",
    ]
    for latency in page.context["sections"][1:4]:
        assert [trace["name"][0] for trace in latency.figure["data"]] == ["A", "B"]


def test_no_more_than_six(browser, engineer, runs):
    page = _compare(browser(engineer), runs)
    assert len(page.context["sides"]) == 6
    assert page.context["left_out"] == 1


def test_distributions_stand_over_each_other_where_one_of_three_runs_has_none(browser, engineer, organisation, runs):
    failed = sample_runs.run(organisation, engineer, "failed", "profile")
    page = _compare(browser(engineer), [failed, *runs[:2]])
    latency = next(section for section in page.context["sections"] if section.title == "TTF64")
    assert [trace["name"][0] for trace in latency.figure["data"]] == ["B", "C"]
    assert latency.rows[0][1][0] == "–"


def test_throughputs_in_unlike_units_have_a_section_each(browser, engineer, runs):
    """Images per second of a vision model stood on the axis of tokens per second."""
    for run, unit in zip(runs, ("tokens/s", "images/s", "tokens/s", "images/s"), strict=False):
        row = StageRun.objects.get(run=run, stage="verify")
        other = row.result["after"][0] | {"metric": "throughput", "n": None, "unit": unit}
        row.result["after"].append(other)
        row.save()
    page = _compare(browser(engineer), runs[:4])
    found = {each.title: each for each in page.context["sections"] if each.title.startswith("Throughput")}
    assert {title: [trace["name"][0] for trace in each.figure["data"]] for title, each in found.items()} == {
        "Throughput, tokens/s": ["A", "C"],
        "Throughput, images/s": ["B", "D"],
    }
    assert len({each.key for each in found.values()}) == 2
    assert "Throughput" not in " ".join(
        each.title for each in _compare(browser(engineer), runs[:2]).context["sections"]
    )


def test_the_speedup_has_its_interval_and_a_difference_takes_intervals_apart(browser, engineer, runs):
    row = StageRun.objects.get(run=runs[1], stage="verify")
    row.result["speedup"]["ratio"] = {"value": 2.0, "low": 1.9, "high": 2.1}
    row.save()
    objectives = _compare(browser(engineer), runs[:3]).context["sections"][0]
    gains = [text for text, _ in objectives.rows[-1]]
    assert gains[:2] == ["Speedup over its own before", "3.47x (3.46 to 3.49)"]
    assert gains[2] == "2.00x (1.90 to 2.10): less than A"
    assert gains[3].endswith(": no difference from A")


def test_a_foreign_run_is_left_out(browser, foreigner, runs):
    page = _compare(browser(foreigner), runs[:2])
    assert page.context["sides"] == []
    assert page.context["left_out"] == 2
    assert runs[0].workload.name not in page.content.decode()


def test_nonsense_in_the_address_is_no_error(browser, engineer, runs):
    assert browser(engineer).get("/compare/?run=x&run=&run=1").status_code == 200


def test_runs_without_results_can_be_compared(browser, engineer, organisation, runs):
    page = _compare(browser(engineer), [runs[0], sample_runs.run(organisation, engineer, "failed", "profile")])
    assert page.status_code == 200
    assert "differ in their devices" in page.content.decode()


@pytest.mark.parametrize(
    ("gpu_class", "share", "said"), [("cpu", 0.66, True), ("cpu", 0.1, False), ("h200", 0.66, False)]
)
def test_a_busy_cpu_is_said(browser, engineer, runs, gpu_class, share, said):
    row = StageRun.objects.get(run=runs[1], stage="verify")
    row.result["environment"] |= {"gpu_class": gpu_class, "telemetry": {"others_cpu_share": share}}
    row.save()
    words = f"Other programs used {100 * share:.0f} % of the CPU while verify measured"
    assert (f"Run B: {words}" in _compare(browser(engineer), runs[:2]).content.decode()) == said
    result = browser(engineer).get(f"/runs/{runs[1].id}/result/").content.decode()
    assert (words in re.sub(r"</?span[^>]*>", "", result)) == said


def test_another_device_is_said(browser, engineer, runs):
    row = StageRun.objects.get(run=runs[1], stage="verify")
    row.result["environment"]["device"] = "Another device"
    row.save()
    assert "differ in their devices" in _compare(browser(engineer), runs[:2]).content.decode()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.5, 0.7, "1.67x faster"), (0.9, 1.2, "no difference"), (1.4, 1.6, "1.50x slower")],
)
def test_a_difference_takes_intervals_apart(low, high, said):
    candidate = sample_results.results().explore.candidates[0]
    reference = candidate.model_copy(update={"ms": 1.0, "ms_low": 0.95, "ms_high": 1.05})
    found = candidate.model_copy(update={"ms": (low + high) / 2, "ms_low": low, "ms_high": high})
    assert comparison.difference(found, reference) == said


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
