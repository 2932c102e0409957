"""Comparing runs: on the page, whose address holds the choice, and by the command."""

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
        "Latency",
        "Operations",
        "Plans",
        "Where it was measured",
        "Cost",
    ]
    latency = page.context["sections"][1]
    assert [trace["name"][0] for trace in latency.figure["data"]] == ["A", "B"]


def test_no_more_than_six(browser, engineer, runs):
    page = _compare(browser(engineer), runs)
    assert len(page.context["sides"]) == 6
    assert page.context["left_out"] == 1


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
