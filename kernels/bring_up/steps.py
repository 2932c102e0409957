"""Steps in processes: one that breaks or never ends costs its step alone. A step whose JSON file is there is over."""

import json
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BringUpStep:
    """`work(**arguments)` gives the content of `name`.json, within `seconds`. `label` tells people what it does."""

    name: str
    label: str
    work: Callable[..., Any]
    arguments: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class StepOutcome:
    """What a step gave; or `stopped`, a sentence on why it gave nothing."""

    found: Any = None
    stopped: str = ""


def outcome(folder: Path, name: str) -> StepOutcome | None:
    """The outcome in the step's file; None when it has not run."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    saved = json.loads(path.read_text())
    return StepOutcome(saved["found"], saved["stopped"])


def _keep(folder: Path, step: BringUpStep, outcome: StepOutcome) -> None:
    saved = {"label": step.label, "found": outcome.found, "stopped": outcome.stopped}
    write_whole(folder / f"{step.name}.json", json.dumps(saved, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes the file whole or not at all, also where the process is killed meanwhile."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)


def stopped_steps(folder: Path) -> dict[str, str]:
    """The steps that gave nothing, by label, each with its sentence."""
    saved = [json.loads(path.read_text()) for path in sorted(folder.glob("*-*.json"))]
    return {entry["label"]: entry["stopped"] for entry in saved if entry.get("stopped")}


def run_steps(
    folder: Path, steps: Sequence[BringUpStep], end: float, on_step: Callable[[str], None], processes: int = 1
) -> list[str]:
    """Runs the steps without a file, in order, until `end` (monotonic s). Returns the labels of those left out."""
    waiting: queue.SimpleQueue[BringUpStep] = queue.SimpleQueue()
    for step in steps:
        if outcome(folder, step.name) is None:
            waiting.put(step)
    total, left_out = waiting.qsize(), []
    done, saying = iter(range(1, total + 1)), threading.Lock()

    def work() -> None:
        worker = _Worker()
        try:
            while True:
                try:
                    step = waiting.get_nowait()
                except queue.Empty:
                    return
                left = end - time.monotonic()
                if left <= 0:
                    left_out.append(step.label)
                    continue
                began = time.monotonic()
                outcome = worker.run(step, min(step.seconds, left))
                if outcome is None and left < step.seconds:
                    left_out.append(step.label)
                    continue
                _keep(folder, step, outcome or StepOutcome(stopped=f"It took more than {step.seconds:.0f} s."))
                with saying:
                    on_step(f"{next(done)} of {total}: {step.label} in {time.monotonic() - began:.1f} s")
        finally:
            worker.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, min(processes, total)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return left_out


class _Worker:
    """A process that runs one step after the other. One that ends or is late is replaced."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._ours: Connection | None = None

    def run(self, step: BringUpStep, seconds: float) -> StepOutcome | None:
        """The step's outcome; None when it has not ended after `seconds`."""
        ours = self._start()
        try:
            ours.send((step.work, step.arguments))
            if ours.poll(seconds):
                received: StepOutcome = ours.recv()
                if received.stopped:  # its process ends
                    self.stop()
                return received
            outcome = None
        except (EOFError, OSError):
            outcome = StepOutcome(stopped=f"Its process ended with code {self._exit_code()}.")
        self.stop()
        return outcome

    def _start(self) -> Connection:
        if self._ours is None:
            context = multiprocessing.get_context("spawn")
            self._ours, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._ours

    def _exit_code(self) -> int | None:
        if self._process is None:
            return None
        self._process.join(5)
        return self._process.exitcode

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._ours = None


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _serve(orders: Connection) -> None:
    # A bring-up that is killed must not leave a step behind, which would disturb what the next call measures.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            work, arguments = orders.recv()
        except EOFError:
            return
        try:
            orders.send(StepOutcome(work(**arguments)))
        except Exception as error:  # the process ends as well: its CUDA context may be broken
            first = next(iter(str(error).splitlines()), "")  # CUDA's errors go on with advice to programmers
            orders.send(StepOutcome(stopped=f"{type(error).__name__}: {first[:400]}"))
            raise
