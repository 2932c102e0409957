"""How long a plan may take before its process is ended, where requests take long or many users wait."""

from tests.sample_results import results
from tests.workers.conftest import stage_input
from workers.documents.measurement import Distribution
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.measuring.journal import Journal
from workers.measuring.overruns import overrun_seconds


def measured(metric: str):
    """Baseline of 64 users whose requests take 5 s each, one after the other: they wait 320 s."""
    waits = Distribution(metric=metric, unit="ms", samples=[320_000.0], percentiles={"p50": 320_000.0})
    return results().baseline.model_copy(update={"distributions": [waits]})


def test_a_plan_has_two_minutes_and_more_where_clients_wait_for_each_other():
    assert overrun_seconds(stage_input("compose")) == 120.0
    for metric in ("e2e", "batch_latency"):
        document = stage_input("verify", results=Results(baseline=measured(metric)))
        assert overrun_seconds(document) == 120.0 + 20 * 320


def test_a_plan_may_take_half_of_the_time_that_is_left_and_what_building_and_requests_take(tmp_path):
    def seconds(left: float, building: float = 0.0, **results) -> float:
        document = stage_input("verify", results=Results(**results))
        return round(Journal(document, Context(tmp_path, tmp_path, seconds=left)).plan_seconds(building))

    assert seconds(200) == 100
    assert seconds(200, building=40) == 140
    assert seconds(200, building=900) == 200 + 120
    assert seconds(10) == 30
    assert seconds(200, baseline=measured("e2e")) == 100 + 20 * 320
