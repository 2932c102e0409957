"""A module or a piece of code in a confined process, until it ends."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.host.child import Child, ChildCommand, ExitStatus
from workers.host.template_process import Template


def code_command(code: str, env: Mapping[str, str], folder: Path) -> ChildCommand:
    (folder / "given.py").write_text(code)
    return ChildCommand("given", [], env, cwd=folder, log_file=folder / "log")


def run(
    command: ChildCommand,
    limits: ResourceLimits,
    bounds: Bounds,
    on_line: Callable[[str], None],
    on_start: Callable[[Protection], object] = id,
    stop: threading.Event | None = None,
    times: tuple[float, float] = (300, 15),
    template: Template | None = None,
) -> ExitStatus:
    """How the command ended. `times`: the seconds until SIGTERM, and more until it is killed."""
    with closing(Child(command, limits, bounds, on_line, template)) as process:
        on_start(process.protection)
        why = process.wait(*times, stop or threading.Event(), lambda: False)
        return ExitStatus(process.close(), why)
