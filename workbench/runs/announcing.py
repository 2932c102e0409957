"""Tells webhooks and members that a run has ended, in the transaction that ends it."""

import functools
from typing import Any

from django.conf import settings

from workbench.accounts.models import Membership
from workbench.notifications.models import Kind
from workbench.notifications.outbox import announce
from workbench.runs.models import Run, StageRun
from workers.wording.text import VERDICT_LABELS


def run_ended(run: Run, state: Run.State, sentence: str) -> None:
    """`sentence` says why it ended; of a run that is done, the report's headline is said instead."""
    data = functools.partial(_facts, run, state, sentence)
    starter = Membership.objects.filter(user=run.created_by_id, organisation=run.organisation_id).first()
    announce(run.organisation_id, Kind.RUN_FINISHED, data, starter.pk if starter else None)
    if state == Run.State.DONE and run.verdict == "missed":
        announce(run.organisation_id, Kind.RUN_MISSED, data)


def page_of(run_id: Any) -> str:
    """The address of a run's page, written out: a process of the worker API, where runs end too, has no pages."""
    return f"{settings.PUBLIC_URL}/runs/{run_id}/"


def _facts(run: Run, state: Run.State, sentence: str) -> dict[str, Any]:
    if state == Run.State.DONE:
        written = StageRun.objects.filter(run=run, stage="report").values_list("result__headline", flat=True)
        sentence = written.first() or sentence
    facts = {
        "id": str(run.id),
        "state": state.value,
        "verdict": run.verdict,
        "verdict_words": VERDICT_LABELS.get(run.verdict, ""),
        "sentence": sentence,
        "workload": run.workload.name,
        "model": run.workload.model.name,
        "gpu_class": run.gpu_class,
        "url": page_of(run.id),
    }
    return {"run": facts}
