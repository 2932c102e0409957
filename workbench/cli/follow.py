"""Follow a run to its end: a bar for each stage on a terminal, a line for each change in a log."""

import json
import time
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from workbench.cli import tables
from workbench.cli.client import ApiClient
from workbench.cli.consoles import complain, err, out
from workbench.cli.errors import CliError, Exit
from workbench.cli.load_tables import under_load
from workers.documents.stages import Results

OVER = ("done", "failed", "cancelled", "lost")
POLL_SECONDS = 1.0
VERDICTS = {
    "met": Exit.MET,
    "missed": Exit.MISSED,
    "not_enough_samples": Exit.NOT_ENOUGH_SAMPLES,
    "too_close": Exit.TOO_CLOSE,
}


def exit_code(run: dict[str, Any]) -> Exit:
    """The exit code for a run that has ended."""
    if run["state"] in ("cancelled", "lost"):
        return Exit.CANCELLED_OR_LOST
    return VERDICTS.get(run["verdict"] or "", Exit.FAILED) if run["state"] == "done" else Exit.FAILED


def follow(api: ApiClient, run_id: str, console: Console) -> dict[str, Any]:
    """Waits until the run has ended and returns it. Shows its progress on `console`."""
    view = _Bars(console) if console.is_terminal else _Lines(console)
    try:
        with view:
            while True:
                run: dict[str, Any] = api.get(f"/runs/{run_id}")
                view.show(run)
                if run["state"] in OVER:
                    return run
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        raise CliError(f"Stopped watching; the run goes on: workbench show {run_id} --wait", Exit.INTERRUPTED) from None


class _Lines:
    """One line when a stage begins, ends or is tried again, or when the run waits."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[str, tuple[str, int]] = {}
        self._waiting = ""

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, run: dict[str, Any]) -> None:
        """Print what is new."""
        if run["waiting"] and run["waiting"] != self._waiting:
            self._console.print(run["waiting"])
        self._waiting = run["waiting"]
        for stage in run["stages"]:
            now = (stage["state"], stage["attempt"])
            if stage["state"] in ("pending", "queued") or self._seen.get(stage["stage"]) == now:
                continue
            self._seen[stage["stage"]] = now
            again = f" (attempt {stage['attempt']})" if stage["attempt"] > 1 else ""
            message = f"  {stage['message']}" if stage["message"] else ""
            line = f"{stage['stage']:>9}  {stage['state']}{again}{message}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Bars(_Lines):
    """A bar for each stage with its latest message."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._progress = Progress(
            SpinnerColumn(finished_text="•"),
            TextColumn("{task.fields[stage]:>9}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "_Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, run: dict[str, Any]) -> None:
        """Move the bars."""
        for stage in run["stages"]:
            name, state = stage["stage"], stage["state"]
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task("", total=1.0, start=False, stage=name)
            task = self._tasks[name]
            if state not in ("pending", "queued"):
                self._progress.start_task(task)
            waiting = run["waiting"] if name == run["stage"] and state == "queued" else ""
            done = 1.0 if state == "done" else min(stage["progress"], 0.99)
            self._progress.update(task, completed=done, description=waiting or stage["message"])
            if state in ("done", "failed"):
                self._progress.stop_task(task)


def report_start(api: ApiClient, run: dict[str, Any], wait: bool, as_json: bool) -> None:
    """Says where the run is, and follows it where it is to `wait`."""
    err.print(f"Run {run['id']}  {api.url}/runs/{run['id']}/", highlight=False, soft_wrap=True)
    if wait:
        run = follow(api, run["id"], err)
    print_run(api, run, as_json)
    if wait:
        raise typer.Exit(exit_code(run))


def print_run(api: ApiClient, run: dict[str, Any], as_json: bool) -> None:
    """Prints what is known of the run, and why it has failed."""
    over = run["state"] in OVER
    result = api.get(f"/runs/{run['id']}/result") if over else None
    if as_json:
        print_json(run | ({"results": result["results"]} if result else {}))
        return
    if result:
        results = Results.model_validate(result["results"])
        if results.load is not None:
            under_load(results.load, out)
        tables.outcome(results, out)
        if results.price and results.price.economics and results.price.economics.stated:
            out.print(results.price.economics.stated.sentence, highlight=False, markup=False, soft_wrap=True)
    if run["error"]:
        complain(_failure(run["error"]))
    if over and run["state"] != "done":
        err.print(f"The run was {run['state']}.")


def _failure(error: dict[str, Any]) -> str:
    sentence: str = error["sentence"]
    return ": ".join([*(part for part in (error["file"], error["field"]) if part and part not in sentence), sentence])


def print_json(document: Any) -> None:
    """Prints a document for programs."""
    typer.echo(json.dumps(document, indent=2))
