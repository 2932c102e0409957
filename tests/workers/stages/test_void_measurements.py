"""What was measured while another program used the GPU is void: measured again, or without a verdict."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workers.measuring.test_outcomes import served
from tests.workers.stages.test_confirmed_plans import ENVIRONMENT, document_of, slow_runners, verified
from workers.documents.measurement import Telemetry
from workers.harness.context import Context
from workers.planning import measuring_process, processes, verification
from workers.planning.confirmation import baseline_plan
from workers.planning.fresh_process import Result
from workers.stages.price import price
from workers.wording import provenance

__all__ = ["slow_runners"]

SHARED = Telemetry(sm_mhz_median=1980, others_gpu_count=1, others_gpu_seconds=2.5, others_gpu_gib=4)
ALONE = Telemetry(sm_mhz_median=1980, others_gpu_count=0, others_gpu_seconds=0, others_gpu_gib=0)
VOID = "Another program used the GPU while this was measured (for 2.5 s, with 4.0 GiB); measure again when it is idle."


def watched_as(monkeypatch: pytest.MonkeyPatch, *seen: Telemetry) -> None:
    """Verify's measurements see these one after another, the last one for good."""
    left = list(seen)

    @contextmanager
    def watched(document: object) -> Iterator[object]:
        telemetry = left.pop(0) if len(left) > 1 else left[0]
        yield lambda: ENVIRONMENT.model_copy(update={"telemetry": telemetry})

    monkeypatch.setattr(verification, "watch_device", watched)


def test_a_plan_measured_beside_another_program_has_no_verdict(context, monkeypatch):
    watched_as(monkeypatch, SHARED)
    document = document_of(1, ("compiled", "fp32", 200), ("eager", "fp32", 20))
    result, results = verified(document, context)
    assert not result.recommended
    assert result.verdict == "not_enough_samples"
    assert {(outcome.void, outcome.verdict_before, outcome.verdict) for outcome in result.outcomes} == {
        (True, "not_enough_samples", "not_enough_samples")
    }
    assert result.sentence == f"Nothing is decided. {VOID}"
    assert result.checks[0].reason == VOID
    assert result.plan["expected"] is None
    assert "void: another program used the GPU for 2.5 s" in provenance.sentence(results, "verify")
    assert VOID in price(document.workload, document.prices, "cpu", result, document.model).sentence


def test_it_is_measured_again_where_the_time_allows(context, monkeypatch):
    watched_as(monkeypatch, SHARED, ALONE)
    result, results = verified(document_of(1, ("compiled", "fp32", 200), ("eager", "fp32", 20)), context, seconds=240)
    assert result.recommended
    assert not any(outcome.void for outcome in result.outcomes)
    assert "no other program on the GPU" in provenance.sentence(results, "verify")


def test_a_further_process_beside_another_program_is_left_out(context, monkeypatch):
    document = document_of(1, ("compiled", "fp32", 200), ("eager", "fp32", 20))

    class Ended:
        def __init__(self, module: str, arguments: list[str]) -> None:
            environment = ENVIRONMENT.model_copy(update={"telemetry": SHARED if "process-3" in arguments[1] else ALONE})
            result = Result(environment=environment, before=served(200, 10, 8), after=served(20, 10, 8))
            Path(arguments[1]).write_text(result.model_dump_json())

        def run(self, seconds: float) -> int:
            return 0

    monkeypatch.setattr(measuring_process, "FreshProcess", Ended)
    long = Context(context.model_dir, context.artifacts, seconds=1000)
    runs = processes.FurtherProcesses(document, long).measure(baseline_plan(document), 10, 10, lambda further: False)
    assert len(runs.alternations) == 1
    assert runs.failure == f"Process 3 is left out: a{VOID[1:]}"
