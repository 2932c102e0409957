"""How every process logs: a JSON object a line, or coloured lines on a terminal, with the ids of what it is about.

The modules log through `logging`; structlog renders. `bound` gives every line that is written inside it a `run_id`, a
`request_id` or another id.
"""

import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog
from structlog.contextvars import bind_contextvars, bound_contextvars, clear_contextvars, get_contextvars

bound = bound_contextvars
"""`with bound(run_id=…, stage=…):` puts the ids on every line of this thread, and of threads begun by `inheriting`."""
bind, clear = bind_contextvars, clear_contextvars
"""`bind(run_id=…)` puts the ids on every line of this thread until `clear()`."""

_SECRET_ADDRESS = re.compile(r"/(shared|invitations|unsubscribe)/[^/\s]+")


def _without_secrets(logger: Any, level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The line without what the addresses of links hold: who has one needs nothing else."""
    line["event"] = _SECRET_ADDRESS.sub(r"/\1/…", str(line["event"]))
    return line


_ENRICH: list[Any] = [
    _without_secrets,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configuration(level: str | int = "INFO") -> dict[str, Any]:
    """For `logging.config.dictConfig`: everything from `level` on goes to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"ids": {"()": _formatter}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "ids"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "httpx": {"level": "WARNING"},  # it tells every heartbeat
            "waitress.queue": {"level": "ERROR"},  # it tells every request that waits for a thread
        },
    }


def request_id() -> str:
    """The id of the request, or of the task, that this thread works on; empty when there is none."""
    return str(get_contextvars().get("request_id", ""))


def _formatter() -> structlog.stdlib.ProcessorFormatter:
    drop = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if sys.stderr.isatty():
        render: list[Any] = [drop, structlog.dev.ConsoleRenderer()]
    else:
        render = [drop, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(processors=render, foreign_pre_chain=_ENRICH)
