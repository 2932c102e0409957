"""Organisations to look at and to measure with: a measured run that was kept as a file, and many copies of a run."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from workbench.intake import blobs
from workbench.intake.models import Model, Workload
from workbench.intake.services.workloads import create_workload
from workbench.reports.models import Report
from workbench.runs.models import Event, Run, StageRun, StoredArtifact, Tag
from workbench.runs.services import stage_input
from workers.documents.worker_api import StageKey
from workers.documents.workload import Workload as WorkloadDocument
from workers.report.page import render

KEPT_RUNS = Path(settings.BASE_DIR) / "benchmarks" / "results" / "h200"
WHOLE = ("price", "report")
"""Stages whose results every copy has; those of the others are large."""
PROJECTS, TAGS = ("Voice", "Chat", "Search", ""), ("nightly", "candidate", "release")
BATCH = 500


def kept_run(organisation: Any, user: Any, name: str) -> Run:
    """The run of KEPT_RUNS/NAME.json, as its worker reported it, with the files that it wrote."""
    kept = json.loads((KEPT_RUNS / f"{name}.json").read_text("utf-8"))
    facts, results = kept["run"], kept["results"]
    for profile in filter(None, (results["profile"], results["verify"]["profile"])):
        profile |= {"trace": None, "timeline": None}  # the files are not kept
    minutes = re.search(r"minutes: ([\d.]+)", kept["sla"])
    under_load = {"load": {"most_users": 64}, "baseline_runner": "vllm"} if results.get("load") else {}
    document = WorkloadDocument(
        name=f"Voice agent, {name}",
        model=kept["model"],
        objectives=[{"metric": "ttf_n", "n": 64, "percentile": 95 if under_load else 50, "limit": 100}],
        constraints={"minutes": float(minutes[1])} if minutes else {},
        **under_load,
    )
    run = Run.objects.create(
        organisation=organisation,
        workload=create_workload(organisation, user, document),
        created_by=user,
        gpu_class="h200",
        state=Run.State.DONE,
        stage="report",
        verdict=facts["verdict"],
        started_at=facts["started_at"],
        finished_at=facts["finished_at"],
    )
    for position, stage in enumerate(facts["stages"]):
        StageRun.objects.create(run=run, position=position, result=results[stage["stage"]], **stage)
    for event in kept["events"]:
        Event.objects.create(run=run, **{key: event[key] for key in ("stage", "attempt", "kind", "message", "data")})
    run.refresh_from_db()
    report_input = stage_input(run, StageKey(run_id=str(run.id), stage="report", attempt=1))
    results["report"]["html"] |= keep_file(run, "report.html", "text/html", render(report_input).encode())
    plan = json.dumps(results["verify"]["plan"], indent=2) + "\n"
    results["report"]["plan"] |= keep_file(run, "plan.json", "application/json", plan.encode())
    run.stages.filter(stage="report").update(result=results["report"])
    return run


def keep_file(run: Run, name: str, media_type: str, content: bytes) -> dict[str, Any]:
    """A file that the report stage of the run kept; its row's fields."""
    sha256, size = blobs.store([content])
    facts = {"name": name, "sha256": sha256, "size": size, "media_type": media_type}
    StoredArtifact.objects.create(run=run, organisation_id=run.organisation_id, stage="report", **facts)
    return facts


def copies(first: Run, runs: int, workloads: int, models: int, busiest: int, complete: int) -> list[Run]:
    """As many copies of a finished run, the newest first, in new workloads of new models; the first workload has
    `busiest` of them. One in `complete` has all results and the verdict of `first`; the others have made-up verdicts.
    """
    organisation, user = first.organisation, first.created_by
    facts, document = first.workload.model.manifest, first.workload.document
    made_models = Model.objects.bulk_create(
        Model(organisation=organisation, name=f"model-{index}", digest=f"{index:064x}", content_digest=f"{index:064x}",
              manifest=facts, created_by=user)
        for index in range(models)
    )  # fmt: skip
    made_workloads = Workload.objects.bulk_create(
        Workload(organisation=organisation, name=f"workload {index}", document=document,
                 model=made_models[index % models], created_by=user, project=PROJECTS[index % len(PROJECTS)])
        for index in range(workloads)
    )  # fmt: skip
    now, rest = timezone.now(), max(workloads - 1, 1)
    verdicts = ("met", "missed", "too_close")
    copied_runs = [
        Run(organisation=organisation,
            workload=made_workloads[0 if index < busiest else (1 + index % rest) % workloads],
            gpu_class=first.gpu_class, state="done", stage="report", created_by=user,
            verdict=verdicts[index % 3] if index % complete else first.verdict,
            usd_before=first.usd_before, usd_after=first.usd_after,
            started_at=now - timedelta(minutes=index + 7), finished_at=now - timedelta(minutes=index))
        for index in range(runs)
    ]  # fmt: skip
    Run.objects.bulk_create(copied_runs, BATCH)
    for number, run in enumerate(copied_runs):
        run.created_at = now - timedelta(minutes=number + 8)
    Run.objects.bulk_update(copied_runs, ["created_at"], BATCH)
    newest = {run.workload_id: run for run in reversed(copied_runs)}
    for workload in made_workloads:
        workload.newest_run = newest.get(workload.id)
    Workload.objects.bulk_update(made_workloads, ["newest_run"], BATCH)
    tags = Tag.objects.bulk_create(Tag(organisation=organisation, name=name) for name in TAGS)
    tagged = [Run.tags.through(run=run, tag=tags[each % len(TAGS)]) for each, run in enumerate(copied_runs[::5])]
    Run.tags.through.objects.bulk_create(tagged, BATCH)
    _fill(copied_runs, first, complete)
    return copied_runs


def _fill(runs: list[Run], first: Run, complete: int) -> None:
    """Stages, events and files of every copy."""
    stages, files, events = list(first.stages.all()), list(first.artifacts.all()), list(first.events.all()[:10])
    for begin in range(0, len(runs), BATCH):
        part = list(enumerate(runs[begin : begin + BATCH], start=begin))
        StageRun.objects.bulk_create(
            StageRun(run=run, position=stage.position, stage=stage.stage, state="done", started_at=run.started_at,
                     finished_at=run.finished_at, progress=1,
                     result=stage.result if stage.stage in WHOLE or not number % complete else None)
            for number, run in part for stage in stages
        )  # fmt: skip
        Event.objects.bulk_create(
            Event(run=run, stage=event.stage, attempt=1, kind=event.kind, message=event.message)
            for _, run in part for event in events
        )  # fmt: skip
        StoredArtifact.objects.bulk_create(
            StoredArtifact(run=run, organisation_id=run.organisation_id, stage=file.stage, name=file.name,
                           sha256=file.sha256, size=file.size, media_type=file.media_type)
            for _, run in part for file in files
        )  # fmt: skip


def copy_reports(report: Report, runs: list[Run], many: int) -> None:
    """Makes up to `many` copies of a report, one of each run, whose states repeat in order."""
    states = Report.State.values
    Report.objects.bulk_create(
        [
            Report(organisation_id=report.organisation_id, run=run, title=f"report {number}", verdict=run.verdict,
                   state=states[number % len(states)], snapshot=report.snapshot, created_by=run.created_by)
            for number, run in enumerate(runs[:many])
        ],
        BATCH,
    )  # fmt: skip
