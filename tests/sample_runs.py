"""Runs in the database in every state, with the made-up results of `sample_results`."""

from datetime import timedelta
from functools import cache
from typing import Any

from django.utils import timezone

from tests import sample_loads, sample_results
from workbench.home.demo import keep_file
from workbench.intake.models import Model, Recording, Workload
from workbench.runs.models import Event, Run, StageRun
from workers.charts.prediction import compare_with_measured
from workers.documents.load import UnderLoadResult
from workers.documents.recording import RecordingFacts
from workers.documents.stages import Results, StageFailure, stages_of
from workers.report.page import headline, render

SECONDS = {
    "admit": 2, "baseline": 31, "profile": 18, "explore": 44, "compose": 61, "verify": 37, "load": 52,
    "price": 1, "report": 1,
}  # fmt: skip


def in_processes(made: Run, count: int = 5, by: float = 1.0) -> Run:
    """The run, whose plan took 81 ms times `by` in `count` processes of verify."""
    stage = made.stages.get(stage="verify")
    assert stage.result is not None
    stage.result["speedup"]["processes"] = [
        {"before": 281, "after": 81 * by * (1 + 0.001 * index), "ratio": 3, "pairs": 10} for index in range(count)
    ]
    stage.save()
    return made


def workload(organisation: Any, user: Any, load: bool = False) -> Workload:
    """A workload on a catalogue model, as intake stores it; `load`: it asks for load."""
    manifest = sample_results.manifest()
    model, _ = Model.objects.get_or_create(
        organisation=organisation,
        digest=manifest.digest,
        defaults={"name": manifest.name, "manifest": manifest.model_dump(), "created_by": user},
    )
    document = sample_loads.workload() if load else sample_results.workload()
    return Workload.objects.create(
        organisation=organisation, name=document.name, document=document.model_dump(), model=model, created_by=user
    )


def run(
    organisation: Any, user: Any, state: str = "done", upto: str = "report", load: bool = False, **changes: Any
) -> Run:
    """A run in `state` whose stages before `upto` are done; the rest wait, and `upto` is in the run's state."""
    begun = timezone.now() - timedelta(seconds=sum(SECONDS.values()))
    made = Run.objects.create(
        organisation=organisation, workload=workload(organisation, user, load), state=state, stage=upto,
        gpu_class="h200", started_at=None if state == "queued" else begun, created_by=user, **changes,
    )  # fmt: skip
    Workload.objects.filter(id=made.workload_id).update(newest_run=made)
    known = sample_loads.results() if load else sample_results.results()
    stages = stages_of(load)
    for position, stage in enumerate(stages):
        done = state == "done" or position < stages.index(upto)
        here = stage == upto and not done
        ended = begun + timedelta(seconds=SECONDS[stage])
        StageRun.objects.create(
            run=made, position=position, stage=stage, state="done" if done else state if here else "pending",
            started_at=begun if done or (here and state != "queued") else None,
            finished_at=ended if done or (here and state == "failed") else None,
            progress=1 if done else 0.4 if here and state == "running" else 0,
            message="measuring request 12 of 30" if here and state == "running" else "",
            result=_result(made, known, stage) if done else None,
        )  # fmt: skip
        if done:
            Event.objects.create(run=made, stage=stage, attempt=1, kind="stage_done", message=f"{stage} is done")
        begun = ended
    if state == "done":
        same = known.price.same_load if known.price else None
        costs = {"usd_before": same.usd_before.value, "usd_after": same.usd_after.value} if same else {}
        verdict = known.verify.verdict if known.verify else ""
        Run.objects.filter(id=made.id).update(verdict=verdict, finished_at=begun, **costs)
    if state == "failed":
        sentence = "config.json: num_attention_heads is 7, which does not divide hidden_size 2048."
        failure = StageFailure(sentence=sentence, refused=True, file="config.json", field="num_attention_heads")
        Run.objects.filter(id=made.id).update(error=failure.model_dump(), finished_at=begun)
    made.refresh_from_db()
    return made


def _result(made: Run, known: Results, stage: str) -> dict[str, Any]:
    if stage != "report":
        result: dict[str, Any] = getattr(known, stage).model_dump(mode="json")
        return result
    assert known.verify is not None
    html = keep_file(made, "report.html", "text/html", _report())
    plan = keep_file(made, "plan.json", "application/json", b"{}\n")
    text = {"verdict": known.verify.verdict, "headline": headline(known.verify, known.load)}
    return text | {
        "html": html,
        "plan": plan,
        "predicted": [item.model_dump() for item in compare_with_measured(known)],
    }


@cache
def _report() -> bytes:
    return render(sample_results.stage_input()).encode()


def replaying(run: Run, user: Any) -> None:
    """The run's workload names a recording of traffic, which its load stage replayed."""
    facts = sample_loads.RECORDING.model_dump(include=set(RecordingFacts.model_fields))
    stated = sample_loads.RECORDING.model_dump(include={"name", "sha256", "size"})
    run.workload.recording = Recording.objects.create(
        organisation=run.organisation, facts=facts, created_by=user, **stated
    )
    run.workload.document["traffic"] |= sample_loads.replayed_traffic(6.4).model_dump(exclude_unset=True)
    run.workload.save()
    stage = run.stages.get(stage="load")
    result = sample_loads.replayed(UnderLoadResult.model_validate(stage.result))
    stage.result = result.model_dump(mode="json")
    stage.save()
