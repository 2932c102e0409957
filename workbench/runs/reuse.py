"""The search of an earlier run, which a run of the same workload takes over, so that it only verifies the plan.

A search is known where it has found a plan that keeps the promises, or has tried all there is. One that left plans out
for time is resumed: the plans that it measured are not tried again. Everything that verify measures is measured
anew. The figures of the stages that are taken over say when they were measured.
"""

from datetime import timedelta
from typing import Any

from django.db.models import Max, Q
from django.utils import timezone

from kernels.measure.environment import ROOT, sources_digest
from workbench.prices.models import PriceBookRow
from workbench.runs.models import Event, Run, StageRun, StoredArtifact
from workers.documents.measurement import Environment
from workers.documents.stages import PlanTrial, Stage

BEFORE_PLANS: tuple[Stage, ...] = ("baseline", "profile", "explore")
"""The stages before the first plan is tried."""
SEARCH: tuple[Stage, ...] = (*BEFORE_PLANS, "compose")
"""The stages that search for a plan."""
RESUMED = "search_resumed"
"""The kind of the event that names the run whose search is resumed."""
KNOWN_FOR = timedelta(hours=12)
"""So long after a search its plan is verified without another one."""
_COPIED = ("organisation_id", "stage", "name", "sha256", "size", "media_type")
"""The fields of a kept file that the run which takes it over has too."""


def earlier_search(run: Run) -> Run | None:
    """The newest run whose search `run`, not saved yet, can take over: one that searched itself, in the last KNOWN_FOR,
    by the same code and prices, for the same model, workload and class of GPU.

    Its verdict was *met* in the same minutes, or it left no plan out for time on an idle machine: more minutes would
    search for nothing else. A workload is the same where all that the search depends on is.
    """
    wanted = run.workload.document
    candidates = _usable_searches(run).select_related("workload").prefetch_related("stages").order_by("-finished_at")
    for candidate in candidates:
        document = candidate.workload.document
        met = candidate.verdict == "met" and document["constraints"]["minutes"] == wanted["constraints"]["minutes"]
        if _searched_for(document) == _searched_for(wanted) and (met or _is_complete(candidate)):
            return candidate
    return None


def may_resume(run: Run, earlier: Run) -> bool:
    """Whether `run`, not saved yet and of the workload of `earlier` with other minutes, can resume its search: one of
    the same class, by the same code and prices, in the last KNOWN_FOR, on an idle machine.
    """
    usable = _usable_searches(run).prefetch_related("stages").filter(pk=earlier.pk).first()
    return usable is not None and _was_idle(usable)


def _usable_searches(run: Run) -> Any:
    """The runs that have searched, and whose measurements count for `run`."""
    runs = Run.objects.filter(
        organisation=run.organisation,
        workload__model=run.workload.model,
        workload__recording=run.workload.recording,
        gpu_class=run.gpu_class,
        state=Run.State.DONE,
        finished_at__gte=timezone.now() - KNOWN_FOR,
    )
    books = PriceBookRow.objects.filter(Q(organisation=run.organisation) | Q(organisation=None))
    if priced_at := books.aggregate(newest=Max("created_at"))["newest"]:
        runs = runs.filter(created_at__gte=priced_at)
    return runs.filter(
        stages__stage="compose",
        stages__state=StageRun.State.DONE,
        stages__started_at__isnull=False,
        stages__result__environment__sources=sources_digest(ROOT),
    )


def take_over(run: Run, earlier: Run) -> str:
    """Give `run`, which is saved and has its stages, the search of `earlier`. Returns a sentence that says so."""
    when = _take_stages(run, earlier, SEARCH)
    return f"The run of {when} has searched for the plan of this workload; here it is verified anew."


def resume_search(run: Run, earlier: Run) -> str:
    """Give `run`, which is saved and has its stages, what `earlier` measured before its plans. Explore runs again where
    its time was over. Returns a sentence that says so.
    """
    explored = earlier.stages.filter(stage="explore").values_list("result", flat=True).first() or {}
    short = any(candidate.get("late") for candidate in explored.get("candidates", []))
    when = _take_stages(run, earlier, BEFORE_PLANS[:-1] if short else BEFORE_PLANS)
    return f"This run resumes the search of the run of {when}: the plans that it measured are not tried again."


def no_longer_counts(earlier: Run) -> str:
    """A sentence that says that the search of `earlier` cannot be resumed."""
    return (
        f"Everything is measured anew, since the figures of the run of {_when(earlier)} do not count: code or prices "
        f"have changed, the run failed or was cancelled, is over {KNOWN_FOR // timedelta(hours=1)} hours old, or its "
        "machine was busy."
    )


def trials_before(run: Run) -> list[PlanTrial]:
    """The plans that the run tried whose search `run` resumes; those that verify refused did not pass."""
    event = Event.objects.filter(run=run, kind=RESUMED).first()
    if event is None or event.data is None:
        return []
    stages = StageRun.objects.filter(run_id=event.data["run"], stage__in=("compose", "verify"))
    results = {row.stage: row.result or {} for row in stages}
    trials = [PlanTrial.model_validate(trial) for trial in results.get("compose", {}).get("trials", [])]
    checks = results.get("verify", {}).get("checks", [])
    for trial in trials:
        for check in checks:
            if check["label"] == trial.label and not check["confirmed"]:
                trial.gate, trial.reason = "fail", check["reason"]
    return trials


def _when(run: Run) -> str:
    return f"{run.finished_at:%Y-%m-%d %H:%M} UTC"


def _take_stages(run: Run, earlier: Run, stages: tuple[Stage, ...]) -> str:
    """Give `run` these stages of `earlier`, with their files. Returns when that one ended, in words."""
    when = _when(earlier)
    for done in earlier.stages.filter(stage__in=stages):
        rows = StageRun.objects.filter(run=run, stage=done.stage)
        rows.update(state=StageRun.State.DONE, progress=1, result=done.result, message=f"Taken from the run of {when}")
    artifacts = StoredArtifact.objects.filter(run=earlier, stage__in=stages)
    StoredArtifact.objects.bulk_create(
        StoredArtifact(run=run, **{name: getattr(artifact, name) for name in _COPIED}) for artifact in artifacts
    )
    return when


def _searched_for(document: dict[str, Any]) -> dict[str, Any]:
    """What of a workload the search depends on, but for its model and its minutes."""
    constraints = {key: value for key, value in document["constraints"].items() if key != "minutes"}
    others = {key: value for key, value in document.items() if key not in ("name", "model", "load", "duty_cycle")}
    return others | {"constraints": constraints}


def _is_complete(run: Run) -> bool:
    """Whether the search left no plan out for time on an idle machine."""
    tried = [row.result["trials"] for row in run.stages.all() if row.stage == "compose" and row.result is not None]
    left_out = any(trial.get("skipped") == "time" for trials in tried for trial in trials)
    return not left_out and _was_idle(run)


def _was_idle(run: Run) -> bool:
    """Whether no other program kept a CPU busy during the search."""
    results = [row.result for row in run.stages.all() if row.stage in ("explore", "compose")]
    environments = [Environment.model_validate(result["environment"]) for result in results if result is not None]
    return all(environment.busy_share is None for environment in environments)
