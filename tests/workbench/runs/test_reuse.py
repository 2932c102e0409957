"""A run of a workload whose plan is known searches for none; who is next for a GPU, and where a run stands in line."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sample_runs
from django.utils import timezone

from kernels.measure.environment import ROOT, sources_digest
from workbench.intake.models import Workload
from workbench.intake.services.catalogue import model_for
from workbench.prices.services import add_price_book
from workbench.runs import run_queue, state
from workbench.runs.models import Run, StageRun, Worker
from workbench.runs.reuse import KNOWN_FOR, SEARCH, trials_before
from workbench.runs.services import create_run, go_on, stage_input
from workers.documents.prices import default_price_book
from workers.documents.stages import GPU_STAGES
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


def after_admit(run, known, stage):
    """What the stage gets that follows admit, which ends as in the known run."""
    admit = StageKey(run_id=str(run.id), stage="admit", attempt=1)
    state.claim(admit, "worker")
    assert state.advance(admit, known.stages.get(stage="admit").result)
    run.refresh_from_db()
    assert run.stage == stage
    return stage_input(run, admit.model_copy(update={"stage": stage}))


def test_the_search_is_taken_over_and_the_plan_verified_anew(browser, engineer, known):
    run = create_run(known.workload, engineer)
    when = f"{known.finished_at:%Y-%m-%d %H:%M} UTC"
    assert f"Taken from the run of {when}" in browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert {states(run)[item] for item in SEARCH} == {StageRun.State.DONE}
    assert states(run)["verify"] == StageRun.State.PENDING
    document = after_admit(run, known, "verify")
    assert document.results.compose.model_dump(mode="json") == known.stages.get(stage="compose").result
    assert document.results.verify is None
    kept = set(known.artifacts.filter(stage__in=SEARCH).values_list("stage", "name", "sha256"))
    assert set(run.artifacts.values_list("stage", "name", "sha256")) == kept


def test_a_new_search_is_made_where_it_is_asked_for(browser, engineer, known):
    client = browser(engineer)
    page = f"/workloads/{known.workload_id}/"
    assert "Search again" in client.get(page).content.decode()
    client.post(f"{page}run/", {"search_again": "1"})
    assert states(Run.objects.latest("created_at"))["baseline"] == StageRun.State.PENDING
    client.post(f"{page}run/")
    assert states(Run.objects.latest("created_at"))["baseline"] == StageRun.State.DONE


def known_as(known, verdict, skipped=None, share=None):
    """Another verdict, why a plan has no figure, and the share of a CPU that others used."""
    Run.objects.filter(id=known.id).update(verdict=verdict)
    stage = known.stages.get(stage="compose")
    stage.result["trials"][-1]["skipped"] = skipped
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
    ("skipped", "share"),
    [("time", None), ("prediction", 0.61)],
    ids=["for want of time", "on a busy machine"],
)
def test_a_search_that_is_not_complete_is_known_only_where_its_plan_met_the_promises(engineer, known, skipped, share):
    known_as(known, "met", skipped, share)
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.DONE
    known_as(known, "missed", skipped, share)
    assert states(create_run(known.workload, engineer))["baseline"] == StageRun.State.PENDING


def unfinished(known):
    """The run has left a plan out for time."""
    document = known.workload.sla
    Workload.objects.filter(id=known.workload_id).update(
        model=model_for(known.organisation, known.created_by, document.model)
    )
    known.workload.refresh_from_db()
    known_as(known, "not_enough_samples", "time")
    stage = known.stages.get(stage="verify")
    stage.result |= {"verdict": "not_enough_samples", "minutes_wanted": 7.5}
    stage.save()


def test_a_run_with_more_minutes_resumes_the_search(browser, engineer, known):
    unfinished(known)
    run = go_on(known, engineer)
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert page.count(f"Taken from the run of {known.finished_at:%Y-%m-%d %H:%M} UTC") == 3
    done = {stage for stage, its in states(run).items() if its == StageRun.State.DONE}
    assert done == {"baseline", "profile", "explore"}
    document = after_admit(run, known, "compose")
    tried = known.stages.get(stage="compose").result["trials"]
    assert [trial.model_dump(mode="json") for trial in document.trials_before] == tried
    assert document.results.compose is None
    assert stage_input(run, StageKey(run_id=str(run.id), stage="verify", attempt=1)).trials_before == []


def test_a_program_goes_on_where_a_run_left_plans_out(api, engineer, account, known):
    address = f"/api/v1/runs/{known.id}/go-on"
    refused = api(engineer).post(address)
    assert (refused.status_code, refused.json()["detail"]) == (409, "state: the run left out no plan")
    unfinished(known)
    assert api(account).post(address).status_code == 403
    Run.objects.filter(id=known.id).update(state="running", finished_at=None)
    assert api(engineer).post(address).json()["detail"] == "state: the run is not over"
    Run.objects.filter(id=known.id).update(state="done", finished_at=known.finished_at)
    answer = api(engineer).post(address)
    assert answer.status_code == 201
    run = Run.objects.get(id=answer.json()["id"])
    assert run.workload.document["constraints"]["minutes"] == 7.5
    assert states(run)["explore"] == StageRun.State.DONE


def test_where_verify_refused_a_plan_the_search_goes_on_without_it(engineer, known):
    """Also one that left nothing out for time."""
    unfinished(known)
    known_as(known, "not_enough_samples", "prediction")
    label = known.stages.get(stage="compose").result["trials"][1]["label"]
    verify = known.stages.get(stage="verify")
    verify.result["checks"] = [{"label": label, "confirmed": False, "reason": "Refused."}]
    verify.save()
    run = go_on(known, engineer)
    assert states(run)["compose"] == StageRun.State.PENDING
    refused = trials_before(run)[1]
    assert (refused.label, refused.gate, refused.reason) == (label, "fail", "Refused.")


def test_what_was_explored_with_too_little_time_is_explored_anew(engineer, known):
    unfinished(known)
    stage = known.stages.get(stage="explore")
    stage.result["candidates"][0]["late"] = True
    stage.save()
    assert states(go_on(known, engineer))["explore"] == StageRun.State.PENDING


@pytest.mark.parametrize("what", ["code", "time", "machine"])
def test_a_search_whose_figures_no_longer_count_is_made_anew(browser, engineer, known, what):
    unfinished(known)
    stage = known.stages.get(stage="compose")
    if what == "code":
        stage.result["environment"]["sources"] = "0" * 64
    elif what == "machine":
        stage.result["environment"]["telemetry"] = {"others_cpu_share": 0.61}
    else:
        Run.objects.filter(id=known.id).update(finished_at=timezone.now() - KNOWN_FOR - timedelta(minutes=1))
    stage.save()
    run = go_on(known, engineer)
    assert states(run)["baseline"] == StageRun.State.PENDING
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert "Everything is measured anew, since the figures of the run of 20" in page


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


def test_other_code_promises_prices_or_a_search_that_was_taken_over_itself_are_no_source(engineer, known):
    def first_stage():
        return states(create_run(known.workload, engineer))["baseline"]

    again = create_run(known.workload, engineer)
    Run.objects.filter(id=again.id).update(state="done", verdict="met", finished_at=timezone.now())
    Run.objects.filter(id=known.id).update(finished_at=timezone.now() - KNOWN_FOR - timedelta(minutes=1))
    assert first_stage() == StageRun.State.PENDING

    Run.objects.filter(id=known.id).update(finished_at=timezone.now())
    known.workload.document["traffic"]["prompt_tokens"] += 1
    assert first_stage() == StageRun.State.PENDING
    known.workload.document["traffic"]["prompt_tokens"] -= 1
    assert first_stage() == StageRun.State.DONE

    stage = known.stages.get(stage="compose")
    own, stage.result["environment"]["sources"] = stage.result["environment"]["sources"], "0" * 64
    stage.save()
    assert first_stage() == StageRun.State.PENDING
    stage.result["environment"]["sources"] = own
    stage.save()
    add_price_book(known.organisation, engineer, default_price_book())
    assert first_stage() == StageRun.State.PENDING


@pytest.fixture
def submit(db):
    """`submit(organisation, user)`: a run of the organisation, which waits for class h200."""
    begun = timezone.now() - timedelta(hours=1)
    count = iter(range(1000))

    def one(organisation, user):
        run = Run(organisation=organisation, workload=sample_runs.workload(organisation, user), gpu_class="h200")
        state.start(run)
        Run.objects.filter(id=run.id).update(created_at=begun + timedelta(seconds=next(count)))
        run.refresh_from_db()
        return run

    return one


@pytest.fixture
def other(foreigner):
    return foreigner.memberships.get().organisation


def _message(run):
    return StageKey(run_id=str(run.id), stage="admit", attempt=1)


def _order_of_ends(messages: list[StageKey]) -> Iterator[str]:
    """One worker takes message after message; each stage that ends sends another. The runs as they end."""
    for message in messages:
        run = run_queue.claim(message, "gpu-0@host", "h200")
        assert run is not None
        key = run_queue.key_of(run)
        assert state.advance(key, {})
        if run.stage == "verify":
            yield str(run.id)
        else:
            messages.append(key.model_copy(update={"stage": GPU_STAGES[GPU_STAGES.index(key.stage) + 1]}))


def test_the_oldest_run_is_finished_first_unless_a_claim_without_a_class_names_another(submit, organisation, engineer):
    runs = [submit(organisation, engineer) for _ in range(4)]
    ended = list(_order_of_ends([_message(run) for run in runs]))
    assert ended == [str(run.id) for run in runs]
    first, second = submit(organisation, engineer), submit(organisation, engineer)
    assert run_queue.claim(_message(second), "w", "").id == second.id
    assert run_queue.claim(_message(first), "w", "b200") is None


def test_organisations_take_turns(submit, organisation, engineer, other, foreigner):
    """Many runs of one organisation do not keep the single run of another waiting."""
    many = [submit(organisation, engineer) for _ in range(4)]
    single = submit(other, foreigner)
    ended = list(_order_of_ends([_message(run) for run in [*many, single]]))
    assert ended.index(str(single.id)) == 1
    runs = [submit(organisation, engineer), submit(organisation, engineer), submit(other, foreigner)]
    taken = [run_queue.claim(_message(runs[0]), f"gpu-{number}@host", "h200") for number in range(2)]
    assert {run.organisation_id for run in taken} == {organisation.id, other.id}


def test_the_place_is_the_order_in_which_claims_are_granted(submit, organisation, engineer, other, foreigner):
    mine = [submit(organisation, engineer) for _ in range(4)]
    theirs = [submit(other, foreigner) for _ in range(2)]
    places = {run.id: run_queue.place_of(run) for run in [*mine, *theirs]}
    assert {place.length for place in places.values() if place} == {6}
    taken = [run_queue.claim(_message(mine[0]), f"gpu-{number}@host", "h200") for number in range(6)]
    assert [run.id for run in taken] == sorted(places, key=places.get)


def test_the_estimate_goes_by_the_last_runs(submit, organisation, engineer, api, browser):
    runs = [submit(organisation, engineer) for _ in range(3)]
    assert run_queue.place_of(runs[2]) == run_queue.QueuePosition(3, 3, None)
    now = timezone.now()
    Worker.objects.create(name="gpu-0@host", gpu_class="h200", last_seen=now)
    done = submit(organisation, engineer)
    Run.objects.filter(id=done.id).update(state="done", started_at=now - timedelta(seconds=180), finished_at=now)
    place = api(engineer).get(f"/api/v1/runs/{runs[2].id}").json()["place"]
    assert place == {"position": 3, "length": 3, "seconds": 360}
    page = browser(engineer).get(f"/runs/{runs[2].id}/").content.decode()
    assert "Number 3 of 3 in line for class h200." in page
    assert "It starts in about" in page
    begun = submit(organisation, engineer)
    Run.objects.filter(id=begun.id).update(state="running", started_at=now - timedelta(seconds=30))
    running = browser(engineer).get(f"/runs/{begun.id}/").content.decode()
    assert re.search(r"about 2 min \d\d s left", running)
    assert "Measuring what runs today" in running, "what each stage does"
    Run.objects.filter(id=begun.id).delete()
    assert run_queue.claim(_message(runs[0]), "gpu-0@host", "h200") is not None
    runs[0].refresh_from_db()
    assert run_queue.place_of(runs[0]) is None
