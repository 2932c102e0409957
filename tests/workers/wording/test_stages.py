"""Why a stage ended, as a customer reads it."""

import pytest

from tests.sample_results import results, stage_input
from workers.documents.measurement import Telemetry
from workers.wording.stages import out_of_time


@pytest.mark.parametrize(
    ("share", "advice"),
    [
        (0.87, ": other programs used 87 % of the CPU. Run it again on an idle machine."),
        (0.05, "; allow more minutes."),
        (None, "; allow more minutes."),
    ],
)
def test_more_minutes_are_no_advice_on_a_busy_machine(share, advice):
    compose = results().compose
    beside = {"gpu_class": "cpu", "telemetry": Telemetry(others_cpu_share=share)}
    busy = compose.model_copy(update={"environment": compose.environment.model_copy(update=beside)})
    document = stage_input().model_copy(
        update={"stage": "verify", "results": results().model_copy(update={"compose": busy})}
    )
    assert (
        out_of_time(document)
        == f"Out of time while measuring the best plan beside today and checking its quality{advice}"
    )
