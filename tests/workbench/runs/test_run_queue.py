"""Who is next for a GPU: begun runs first, organisations alternately, and where a run stands in line."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sample_runs
from django.utils import timezone

from workbench.accounts.models import Organisation, User
from workbench.runs import run_queue, state
from workbench.runs.models import Run, Worker
from workers.documents.stages import GPU_STAGES
from workers.documents.worker_api import StageKey

Submit = Callable[[Organisation, User], Run]


@pytest.fixture
def submit(db: None) -> Submit:
    """A run of the organisation, which waits for class h200."""
    begun = timezone.now() - timedelta(hours=1)
    count = iter(range(1000))

    def one(organisation: Organisation, user: User) -> Run:
        run = Run(organisation=organisation, workload=sample_runs.workload(organisation, user), gpu_class="h200")
        state.start(run)
        Run.objects.filter(id=run.id).update(created_at=begun + timedelta(seconds=next(count)))
        run.refresh_from_db()
        return run

    return one


@pytest.fixture
def other(foreigner: User) -> Organisation:
    membership = foreigner.memberships.first()
    assert membership is not None
    return membership.organisation


def _message(run: Run) -> StageKey:
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


def test_the_oldest_run_is_finished_first(submit: Submit, organisation: Organisation, engineer: User) -> None:
    runs = [submit(organisation, engineer) for _ in range(9)]
    ended = list(_order_of_ends([_message(run) for run in runs]))
    assert ended == [str(run.id) for run in runs]


def test_organisations_take_turns(
    submit: Submit, organisation: Organisation, engineer: User, other: Organisation, foreigner: User
) -> None:
    """Nine runs of one organisation do not keep the single run of another waiting."""
    nine = [submit(organisation, engineer) for _ in range(9)]
    single = submit(other, foreigner)
    ended = list(_order_of_ends([_message(run) for run in [*nine, single]]))
    assert ended.index(str(single.id)) == 1


def test_two_workers_serve_two_organisations(
    submit: Submit, organisation: Organisation, engineer: User, other: Organisation, foreigner: User
) -> None:
    runs = [submit(organisation, engineer), submit(organisation, engineer), submit(other, foreigner)]
    taken = [run_queue.claim(_message(runs[0]), f"gpu-{number}@host", "h200") for number in range(2)]
    assert {run.organisation_id for run in taken if run} == {organisation.id, other.id}


def test_a_claim_without_a_class_takes_the_run_that_it_names(
    submit: Submit, organisation: Organisation, engineer: User
) -> None:
    first, second = submit(organisation, engineer), submit(organisation, engineer)
    taken = run_queue.claim(_message(second), "w", "")
    assert taken is not None
    assert taken.id == second.id
    assert run_queue.claim(_message(first), "w", "b200") is None


def test_the_place_is_the_order_in_which_claims_are_granted(
    submit: Submit, organisation: Organisation, engineer: User, other: Organisation, foreigner: User
) -> None:
    mine = [submit(organisation, engineer) for _ in range(4)]
    theirs = [submit(other, foreigner) for _ in range(2)]
    places = {run.id: run_queue.place_of(run) for run in [*mine, *theirs]}
    assert {place.length for place in places.values() if place} == {6}
    taken = [run_queue.claim(_message(mine[0]), f"gpu-{number}@host", "h200") for number in range(6)]
    assert [run.id for run in taken if run] == sorted(places, key=lambda run: places[run] or (0,))


def test_the_estimate_goes_by_the_last_runs(
    submit: Submit, organisation: Organisation, engineer: User, api: Any, browser: Any
) -> None:
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
