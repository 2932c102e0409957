"""The Celery application of the ledger: tasks with database access, from `tasks.py` of each Django application.

    celery -A workbench worker -Q ledger,notices -c 1 -n ledger@%h -B

Only the worker of the queue `notices` connects to addresses outside: it posts webhooks and sends e-mail.

Celery's Django fixup sets Django up and gives every task database connections that are not stale.
"""

import os
from typing import Any

from django.conf import settings

from workers.documents.broker import NOTICES_QUEUE, NOTICES_TASK, SWEEP_RUNS_TASK, SWEEP_UPLOADS_TASK
from workers.shared.delivery import celery_app

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")


def _every(seconds: float, task: str, **options: Any) -> dict[str, Any]:
    """A schedule entry; a message that waits longer than the interval is dropped."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds, **options}}


app = celery_app("workbench")
app.conf.update(
    beat_schedule={
        "runs": _every(settings.SWEEP_SECONDS, SWEEP_RUNS_TASK),
        "uploads": _every(settings.SWEEP_SECONDS, SWEEP_UPLOADS_TASK),
        "notices": _every(min(10.0, settings.SWEEP_SECONDS), NOTICES_TASK, queue=NOTICES_QUEUE),
    },
    beat_schedule_filename=str(settings.WORKBENCH_DATA / "celerybeat-schedule"),
)
app.autodiscover_tasks()
