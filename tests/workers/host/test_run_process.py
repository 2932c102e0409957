"""The process of a run's stages: one for all of them, at once from the template, and a new one where it has ended."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.conftest import TINY, stage_input
from tests.workers.templates import ready_template
from workers.config import WorkerConfig
from workers.documents.stages import Stage
from workers.host import stage_process
from workers.host.stage_files import Folders, stage_modules
from workers.host.stage_process import RunProcess
from workers.host.template_process import Template
from workers.shared.scratch import scratch

PACKAGE = "tests.workers.process_stages"


class Runs:
    """Runs of one organisation after another, and what their stages said."""

    def __init__(self, outside: Path, stack: ExitStack) -> None:
        self._stack, self.model = stack, outside / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(TINY))

    def process(self, template: Template | None) -> RunProcess:
        directory = self._stack.enter_context(scratch(WorkerConfig.from_environment().scratch))
        made = RunProcess(WorkerConfig.from_environment(), Folders(directory, self.model, None), os.environ, template)
        self._stack.callback(made.close)
        return made

    def stage(self, process: RunProcess, stage: Stage, name: str = "nothing", stop: bool = False) -> Any:
        """How the stage ended, which process it ran in, where it was imported, and what it found there."""
        document = stage_input(stage)
        document.workload.name = name
        message, stopped = list[str](), threading.Event()
        result = SimpleNamespace()

        def line(text: str) -> None:
            message.append(json.loads(text)["message"])
            if stop:
                stopped.set()

        reporter: Any = SimpleNamespace(line=line, stop=stopped)
        result.end = process.run(document, reporter)
        spoken = [item for item in message if " knows " in item]
        place, _, result.known = spoken[-1].partition(" knows ") if spoken else ("", "", "")
        result.pid, _, result.imported = place.partition(" imported ")
        return result


@pytest.fixture
def runs(outside: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setenv("WORKBENCH_STAGE_PACKAGE", PACKAGE)
    monkeypatch.setenv("WORKER_CACHE", str(outside / "cache"))
    monkeypatch.setenv("WORKBENCH_DATA", str(outside / "data"))
    with ExitStack() as stack:
        yield Runs(outside, stack)


@pytest.fixture(scope="module")
def template() -> Iterator[Template]:
    made = ready_template(*stage_modules(PACKAGE))
    yield made
    made.close()


def test_the_stages_of_a_run_share_a_forked_process_and_those_of_two_runs_do_not(
    runs: Runs, template: Template
) -> None:
    started = runs.stage(runs.process(None), "baseline")
    assert (started.end.status.code, started.imported) == (0, "here")
    one, two = runs.process(template), runs.process(template)
    first, other, second = runs.stage(one, "baseline"), runs.stage(two, "baseline"), runs.stage(one, "profile")
    assert (first.end.status.code, first.pid, first.known) == (0, second.pid, "[]")
    assert second.known == "['baseline']"
    assert (other.known, other.pid != first.pid) == ("[]", True)
    assert (first.imported, second.imported) == ("before", "before")
    assert second.end.confinement == first.end.confinement
    assert first.end.starts_and_loads > 0
    assert second.end.starts_and_loads == 0


def test_a_process_that_ends_without_a_word_is_replaced_for_the_next_stage(runs: Runs, template: Template) -> None:
    process = runs.process(template)
    gone, next_one = runs.stage(process, "baseline", "exit baseline"), runs.stage(process, "profile")
    assert (gone.end.status.code, gone.end.status.why) == (0, "exit")
    assert (next_one.end.status.code, next_one.known) == (0, "[]")
    assert next_one.pid != gone.pid


def test_a_stage_that_uses_up_its_time_or_is_stopped_ends_its_process(
    runs: Runs, template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_process, "OVERTIME", 0.0)
    monkeypatch.setattr(stage_process, "OVERTIME_SECONDS", 5.0)
    process = runs.process(template)
    late = runs.stage(process, "baseline", "hang baseline")
    assert (late.end.status.code, late.end.status.why) == (1, "timeout")
    monkeypatch.setattr(stage_process, "OVERTIME_SECONDS", 240.0)
    stopped = runs.stage(process, "profile", "hang profile", stop=True)
    assert stopped.end.status.why == "stopped"
    after = runs.stage(process, "baseline")
    assert (after.end.status.code, after.known) == (0, "[]")
