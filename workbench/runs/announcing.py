"""Tells webhooks and members that a run has ended, in the transaction that ends it."""

import functools
from typing import Any

from django.conf import settings
from django.urls import reverse

from workbench.notifications.models import Kind
from workbench.notifications.outbox import announce
from workbench.runs.models import Run, StageRun
from workers.report_page import VERDICTS

PAGES = "workbench.urls"
"""The pages' addresses: most runs end in a process of the worker API, which has others."""


def run_ended(run: Run, state: Run.State, sentence: str) -> None:
    """`sentence` says why it ended; of a run that is done, the report's headline is said instead."""
    told = functools.partial(_facts, run, state, sentence)
    announce(run.organisation_id, Kind.RUN_FINISHED, told)
    if state == Run.State.DONE and run.verdict == "missed":
        announce(run.organisation_id, Kind.RUN_MISSED, told)


def _facts(run: Run, state: Run.State, sentence: str) -> dict[str, Any]:
    if state == Run.State.DONE:
        written = StageRun.objects.filter(run=run, stage="report").values_list("result__headline", flat=True)
        sentence = written.first() or sentence
    words = {str(verdict): said for verdict, said in VERDICTS.items()}
    facts = {
        "id": str(run.id),
        "state": state.value,
        "verdict": run.verdict,
        "verdict_words": words.get(run.verdict, ""),
        "sentence": sentence,
        "workload": run.workload.name,
        "model": run.workload.model.name,
        "gpu_class": run.gpu_class,
        "url": settings.PUBLIC_URL + reverse("run", PAGES, args=[run.id]),
    }
    return {"run": facts}
