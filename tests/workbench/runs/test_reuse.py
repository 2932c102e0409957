"""A run of a workload whose plan is known verifies that plan, and searches for none."""

from datetime import timedelta

import pytest
import sample_runs
from django.utils import timezone

from kernels.measure.environment import ROOT, sources_digest
from workbench.prices.services import add_price_book
from workbench.runs import state
from workbench.runs.models import Run, StageRun
from workbench.runs.reuse import KNOWN_FOR, SEARCH
from workbench.runs.services import create_run, stage_input
from workers.documents.prices import default_price_book
from workers.documents.worker_api import StageKey


@pytest.fixture
def known(organisation, engineer):
    """A finished run whose verdict is *met*, made by the code that runs now."""
    run = sample_runs.run(organisation, engineer)
    stage = run.stages.get(stage="compose")
    stage.result["environment"]["sources"] = sources_digest(ROOT)
    stage.save()
    Run.objects.filter(id=run.id).update(state="done", verdict="met", finished_at=timezone.now())
    run.stages.update(started_at=timezone.now())
    run.refresh_from_db()
    return run


def states(run):
    return dict(run.stages.values_list("stage", "state"))


def test_the_search_is_taken_over_and_the_plan_verified_anew(engineer, known):
    run = create_run(known.workload, engineer)
    assert {states(run)[each] for each in SEARCH} == {StageRun.State.DONE}
    assert states(run)["verify"] == StageRun.State.PENDING
    admit = StageKey(run_id=str(run.id), stage="admit", attempt=1)
    state.claim(admit, "worker")
    assert state.advance(admit, known.stages.get(stage="admit").result)
    run.refresh_from_db()
    assert run.stage == "verify"
    document = stage_input(run, StageKey(run_id=str(run.id), stage="verify", attempt=1))
    assert document.results.compose.model_dump(mode="json") == known.stages.get(stage="compose").result
    assert document.results.verify is None
    kept = set(known.artifacts.filter(stage__in=SEARCH).values_list("stage", "name", "sha256"))
    assert set(run.artifacts.values_list("stage", "name", "sha256")) == kept


def test_the_run_says_whose_search_it_is(browser, engineer, known):
    run = create_run(known.workload, engineer)
    when = f"{known.finished_at:%Y-%m-%d %H:%M} UTC"
    assert f"Taken from the run of {when}" in browser(engineer).get(f"/runs/{run.id}/").content.decode()


def test_a_new_search_is_made_where_it_is_asked_for(browser, engineer, known):
    client = browser(engineer)
    page = f"/workloads/{known.workload_id}/"
    assert "Search again" in client.get(page).content.decode()
    client.post(f"{page}run/", {"search_again": "1"})
    assert states(Run.objects.latest("created_at"))["baseline"] == StageRun.State.PENDING
    client.post(f"{page}run/")
    assert states(Run.objects.latest("created_at"))["baseline"] == StageRun.State.DONE


def known_as(known, verdict, reason="", share=None):
    """Another verdict, the reason why a plan has no figure, and the share of a CPU that others used."""
    Run.objects.filter(id=known.id).update(verdict=verdict)
    stage = known.stages.get(stage="compose")
    stage.result["trials"][-1]["reason"] = reason
    stage.result["environment"] |= {"gpu_class": "cpu", "telemetry": {"others_cpu_share": share}}
    stage.save()


@pytest.mark.parametrize("verdict", ["met", "missed", "too_close"])
def test_a_search_that_tried_all_there_is_is_known_for_any_verdict_minutes_and_load(engineer, known, verdict):
    known_as(known, verdict, share=0.1)
    workload = known.workload
    workload.document["constraints"]["minutes"] += 1
    workload.document |= {"duty_cycle": 0.5, "load": {"most_users": 4}}
    assert states(create_run(workload, engineer))["baseline"] == StageRun.State.DONE


@pytest.mark.parametrize(
    ("reason", "share"),
    [("Not tried: building takes about 9 s and 8 s were left.", None), ("Slower than eager.", 0.61)],
    ids=["for want of time", "on a busy machine"],
)
def test_a_search_that_is_not_complete_is_known_only_where_its_plan_met_the_promises(engineer, known, reason, share):
    known_as(known, "met", reason, share)
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.DONE
    known_as(known, "missed", reason, share)
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.PENDING


OTHERS = {
    "failed": {"state": "failed"},
    "of another class": {"gpu_class": "h100"},
    "long ago": {"finished_at": timezone.now() - 2 * KNOWN_FOR},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_other_runs_are_no_source(engineer, known, changes):
    Run.objects.filter(id=known.id).update(**changes)
    run = create_run(known.workload, engineer, known.gpu_class)
    assert states(run)["baseline"] == StageRun.State.PENDING


def test_new_prices_are_searched_with(engineer, known):
    add_price_book(known.organisation, engineer, default_price_book())
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.PENDING


def test_other_code_another_promise_or_a_search_that_was_taken_over_itself_is_no_source(engineer, known):
    again = create_run(known.workload, engineer)
    Run.objects.filter(id=again.id).update(state="done", verdict="met", finished_at=timezone.now())
    Run.objects.filter(id=known.id).update(finished_at=timezone.now() - KNOWN_FOR - timedelta(minutes=1))
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.PENDING

    Run.objects.filter(id=known.id).update(finished_at=timezone.now())
    workload = known.workload
    workload.document["traffic"]["prompt_tokens"] += 1
    assert states(create_run(workload, engineer))["baseline"] == StageRun.State.PENDING

    workload.document["traffic"]["prompt_tokens"] -= 1
    stage = known.stages.get(stage="compose")
    stage.result["environment"]["sources"] = "0" * 64
    stage.save()
    assert states(create_run(workload, engineer))["baseline"] == StageRun.State.PENDING
