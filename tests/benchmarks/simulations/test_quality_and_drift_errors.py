"""How often a plan that loses too much is accepted, and drift found where there is none: as often as the page says."""

import pytest

from benchmarks.simulations import drift_errors, quality_errors
from tests.simulations_page import agrees, quoted_shares


@pytest.mark.parametrize(
    ("name", "text"), list(zip(list(quality_errors.LOSSES)[:2], ["independent tokens", "AR(1), 0.9"], strict=True))
)
def test_a_plan_that_loses_what_is_allowed_is_accepted_as_seldom_as_the_page_says(name, text):
    quoted, paths = quoted_shares("benchmarks.simulations.quality_errors"), 15
    column = list(quality_errors.TEXTS).index(text)
    for size, times in quality_errors.SIZES.items():
        share = quoted[f"{name}: {size}"][column]
        assert agrees(quality_errors.acceptance_rate(name, text, times, paths), share, paths)
        assert share <= (0.08 if times == 1 else 0.01)


def test_a_plan_that_loses_nothing_is_accepted_and_few_answers_of_a_classifier_err_as_often_as_the_page_says():
    assert (
        quality_errors.acceptance_rate("tokens differ, none did before", "independent tokens", times=0.0, paths=10) == 1
    )
    quoted, paths = quoted_shares("benchmarks.simulations.quality_errors answers")["300"], 30
    for times, share in zip(quality_errors.SIZES.values(), quoted, strict=True):
        assert agrees(quality_errors.accepted_answers(times, paths=paths), share, paths)


@pytest.mark.parametrize("name", drift_errors.TIMES[:2])
def test_times_without_a_trend_are_said_to_drift_as_seldom_as_the_page_says(name):
    quoted, paths = quoted_shares("benchmarks.simulations.drift_errors")[name], 300
    for requests, share in zip(drift_errors.REQUESTS, quoted, strict=True):
        assert agrees(drift_errors.false_alarms(name, requests, paths), share, paths)
        assert share <= 0.001 or name != "independent"
