"""Task names, queues and delivery settings that all processes on the message broker share.

A message carries only ids; the database row is the truth. `visibility_timeout` must be the same in every process and
above the longest task, or Redis hands a long job to a second worker while the first still runs.
"""

from typing import Any

GPU_TASK = "workers.gpu.run_stage"
LEDGER_TASK = "workbench.runs.tasks.run_stage"
SWEEP_RUNS_TASK = "workbench.runs.tasks.sweep_runs"
SWEEP_UPLOADS_TASK = "workbench.intake.tasks.sweep_uploads"
CHECK_UPLOADS_TASK = "workbench.intake.tasks.check_uploads"
NOTICES_TASK = "workbench.notifications.tasks.deliver"
LEDGER_QUEUE = "ledger"
NOTICES_QUEUE = "notices"
INTAKE_QUEUE = "intake"

LONGEST_STAGE_SECONDS = 5 * 3600
"""Above the four hours that a workload may ask for; the hard limit of a GPU task."""
VISIBILITY_SECONDS = 6 * 3600


def gpu_queue(gpu_class: str) -> str:
    """The queue of a GPU class, such as `gpu.h200`."""
    return f"gpu.{gpu_class}"


def gpu_class_of(queue: str) -> str:
    """The GPU class that a queue serves, or an empty string."""
    return queue.removeprefix("gpu.") if queue.startswith("gpu.") else ""


def broker_options(url: str) -> dict[str, Any]:
    """Celery's settings that sender and receiver share."""
    return {
        "broker_url": url or "redis://127.0.0.1:6379/0",
        "broker_transport_options": {
            "visibility_timeout": VISIBILITY_SECONDS,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_default_queue": LEDGER_QUEUE,
    }
