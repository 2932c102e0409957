"""Whole runs of many models, and how far each chosen plan is from the best that is known of the model (*regret*).

    python -m benchmarks.panel --output FOLDER                    # the panel, 3 minutes each; --trained adds a model
    python -m benchmarks.panel --output FOLDER --models smollm2-360m llama-9-layers --minutes 3 6
    python -m benchmarks.panel --output FOLDER --models qwen3-0.6b --data DATA --again
    python -m benchmarks.panel --output FOLDER --trained MODEL --parts PARTS    # unpacks it beside the other runs

Starts one site, submits one workload after the other with default settings but the minutes, and writes
FOLDER/panel.json after each run. Times are counted from the API call that creates the run. `--again` submits each
workload twice; with `--data` a second command finds what the first one left. With `--gpus 2` each of two GPUs takes the
next model when it is free.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.panel_objectives import PANEL, TRAFFIC, TRAINED, Entry, PanelObjective, choose_objective, entry
from benchmarks.workbench_run import surroundings
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError
from workbench.cli.follow import OVER
from workbench.cli.upload import model_reference
from workbench.embedded import Workbench
from workbench.embedded.devices import Device, find_devices
from workers.documents.stages import PlanTrial, Results

PRESENT = "eager"
"""The plan that runs today, by default."""
POLL_SECONDS = 0.5
CANCEL_SECONDS = 30
UNPACK_SECONDS = 10
SETTLE_SECONDS = 10
"""A site that has just started imports torch for so long; customers' sites run already."""
UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("seconds_to_first_plan", "seconds_to_verdict", "verdict", "chosen", "figure", "unit", "before")),
    **{"regret": None, "seconds_of_starts_and_loads": None, "stages": {}, "not_tried_for_time": [], "sentence": ""},
}
"""What a row has of a run that found nothing."""
FIGURE = re.compile(r"[\d.,e+-]+ \S+")
"""A measured figure with its unit, as the stage says it of a plan while it tries others."""


def submit_run(api: ApiClient, entry: Entry, chosen: PanelObjective, minutes: float) -> dict[str, Any]:
    workload = {
        "name": f"{entry.name}, {minutes:g} minutes",
        "model": model_reference(api, entry.reference),
        "traffic": TRAFFIC,
        "objectives": [chosen.objective],
        "constraints": {"minutes": minutes},
    }
    run: dict[str, Any] = api.post("/runs", {"workload": api.post("/workloads", workload)["id"]})
    return run


def follow_run(
    api: ApiClient, name: str, run: dict[str, Any], end: Callable[[], float]
) -> tuple[dict[str, Any], float | None]:
    """The run when it is over or cancelled at `end()`, and the seconds until another plan than today's had a figure."""
    began, first, cancelled, printed = time.monotonic(), None, False, ""
    while run["state"] not in OVER and time.monotonic() < end() + CANCEL_SECONDS:
        if time.monotonic() > end() and not cancelled:
            with suppress(CliError):  # it has just ended by itself
                api.post(f"/runs/{run['id']}/cancel", {})
            cancelled = True
        time.sleep(POLL_SECONDS)
        if first is None and measured_plans(api.get(f"/runs/{run['id']}/stages/compose")):
            first = time.monotonic() - began
        run = api.get(f"/runs/{run['id']}")
        progress = next(
            (f"{stage['stage']}: {stage['message']}" for stage in run["stages"] if stage["state"] == "running"), ""
        )
        if progress != printed:
            printed = progress
            print(f"  {name} {time.monotonic() - began:6.1f} s {progress}", flush=True)
    return run, first


def measured_plans(compose: dict[str, Any]) -> set[str]:
    """The plans other than today's that the stage has a figure of, if it measures: a search taken over has none."""
    if compose["started_at"] is None:
        return set()
    tried = (compose["result"] or {}).get("trials", [])
    labels = {trial["label"] for trial in tried if trial["primary"]}
    labels |= {label for label, text in (compose["partial"] or {}).items() if FIGURE.fullmatch(str(text))}
    return labels - {PRESENT}


def seconds(begun: str | None, ended: str | None) -> float | None:
    """The seconds between two times of the API; None where one of them has not come."""
    if begun is None or ended is None:
        return None
    return round((datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds(), 1)


def starts_and_loads(results: Results) -> float | None:
    """The seconds of all stages; None where none says any."""
    environments = (getattr(stage, "environment", None) for _, stage in results)
    durations = [environment.seconds_of_starts_and_loads for environment in environments if environment]
    return round(sum(filter(None, durations)), 1) if any(value is not None for value in durations) else None


def outcome(run: dict[str, Any], results: Results, best: float | None) -> dict[str, Any]:
    stages = {stage["stage"]: stage for stage in run["stages"]}
    stage_seconds = {name: seconds(stage["started_at"], stage["finished_at"]) for name, stage in stages.items()}
    trials: list[PlanTrial] = results.compose.trials if results.compose else []
    row = {
        "seconds_to_verdict": seconds(run["created_at"], stages["verify"]["finished_at"]),
        "verdict": run["verdict"],
        "seconds_of_starts_and_loads": starts_and_loads(results),
        "stages": {name: seconds for name, seconds in stage_seconds.items() if seconds is not None},
        "not_tried_for_time": [trial.label for trial in trials if trial.skipped == "time"],
        "sentence": (run["error"] or {}).get("sentence", f"The run was {run['state']}."),
    }
    if results.verify:
        first = results.verify.outcomes[0]
        confirmed = [check.label for check in results.verify.checks if check.confirmed]
        row |= {
            "chosen": confirmed[-1] if confirmed else PRESENT,
            "figure": first.after,
            "unit": first.objective.unit,
            "before": first.before,
            "regret": round(first.after / best, 4) if first.after and best else None,
            "sentence": results.verify.sentence,
        }
    return UNKNOWN | row


class Panel:
    """The rows so far, written into the folder after each. A run is cancelled at `end`, or after `longest` seconds."""

    def __init__(self, gpu_class: str, folder: Path, end: float, longest: float = math.inf) -> None:
        self.end = end
        self._gpu, self._longest = gpu_class, longest
        self._file = folder / "panel.json"
        self._lock = threading.Lock()
        self._document: dict[str, Any] = {}
        self._rows: list[dict[str, Any]] = []

    def add(self, api: ApiClient, entry: Entry, minutes: float) -> bool:
        """Measures a model and adds its row; whether its run has ended by itself, with a verdict."""
        chosen = choose_objective(entry, self._gpu, self._rows)
        stated = {
            "model": entry.name,
            "gpu": self._gpu,
            "minutes": minutes,
            "promise": chosen.objective,
            "again": False,
        }
        known = {"predicted": chosen.predicted, "best": chosen.best, "best_source": chosen.source}
        try:
            names = {row["model_name"] for row in api.rows("/runs", 1000)}
            stated["again"] = bool(names & {entry.name, Path(entry.reference).name})
            run = submit_run(api, entry, chosen, minutes)
            latest = time.monotonic() + self._longest
            run, first = follow_run(api, entry.name, run, lambda: min(self.end, latest))
            raw = api.get(f"/runs/{run['id']}/result")["results"]
            row = outcome(run, Results.model_validate(raw), chosen.best)
        except Exception as error:  # the other models are measured
            self._write(stated | UNKNOWN | known | {"sentence": f"{type(error).__name__}: {error}"}, {})
            return False
        row["seconds_to_first_plan"] = None if first is None else round(first, 1)
        self._write(stated | row | known, raw)
        return bool(row["verdict"])

    def _write(self, row: dict[str, Any], results: dict[str, Any]) -> None:
        where = surroundings(results)
        with self._lock:
            self._rows.append(row)
            if self._document.get("device") is None:
                self._document = where
            document = self._document | {"at": where["at"], "traffic": TRAFFIC, "rows": self._rows}
            self._file.write_text(json.dumps(document, indent=1) + "\n")
        times = f"first plan {row['seconds_to_first_plan']} s, verdict {row['seconds_to_verdict']} s"
        figures = f"{row['figure']} of {row['best']}, regret {row['regret']}"
        print(f"{row['model']}, {row['minutes']:g} minutes: {row['verdict']}, {row['chosen']}, {figures}; {times}")
        print(f"  {row['sentence']}", flush=True)


class Models:
    """The models still to be measured; the trained one once its `parts` are unpacked, again where some were missing."""

    def __init__(self, runs: Sequence[tuple[str, float]], trained: Path | None, parts: Path | None) -> None:
        self.waiting, self._trained, self._parts = list(runs), trained, parts
        self._lock = threading.Lock()
        self._unpacking = self._unpack() if parts else None

    def next(self) -> tuple[Entry, float] | None:
        with self._lock:
            for name, minutes in self.waiting:
                if name != TRAINED or self._is_unpacked():
                    self.waiting.remove((name, minutes))
                    return entry(name, self._trained), minutes
        return None

    def close(self) -> None:
        if self._unpacking:
            self._unpacking.kill()
            self._unpacking.wait()

    def _is_unpacked(self) -> bool:
        code = self._unpacking.poll() if self._unpacking else 0
        if code and time.monotonic() > self._unpacked_at + UNPACK_SECONDS:
            self._unpacking = self._unpack()
        return code == 0

    def _unpack(self) -> subprocess.Popen[bytes]:
        self._unpacked_at = time.monotonic()
        unpack = ["-m", "benchmarks.trained_model", str(self._trained), "--unpack", str(self._parts)]
        return subprocess.Popen(["nice", sys.executable, *unpack])


def measure_models(panel: Panel, models: Models, api: ApiClient, again: bool) -> int:
    """Measures one model after the other, as long as there are any; how many runs ended with a verdict."""
    complete = 0
    while time.monotonic() < panel.end and models.waiting:
        if result := models.next():
            complete += sum(panel.add(api, *result) for _ in range(1 + again))
        else:
            time.sleep(POLL_SECONDS)
    return complete


def devices_of_one_class(count: int) -> list[Device]:
    """The first GPU of this machine and further ones of its class, so many in all; the CPU where there is none."""
    first, *others = find_devices()
    return [first, *(device for device in others if device.gpu_class == first.gpu_class)][:count]


def main() -> int:
    """0 when every run has ended by itself, with a verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", help="of the panel or the catalogue, in this order")
    parser.add_argument("--minutes", nargs="+", type=float, default=[3.0], help="of the workloads, one panel for each")
    parser.add_argument("--output", type=Path, required=True, help="folder for panel.json")
    parser.add_argument("--data", type=Path, help="the workbench's data, with its compilers' caches, kept for another")
    parser.add_argument("--again", action="store_true", help="submit each workload twice")
    parser.add_argument("--trained", type=Path, metavar="FOLDER", help="of the trained SmolLM2-135M-Instruct")
    parser.add_argument("--parts", type=Path, help="unpack that model from here, beside the runs before its own")
    parser.add_argument("--seconds", type=float, default=7200, help="cancel what runs so long after the start, and end")
    parser.add_argument("--gpus", type=int, default=1, help="so many of one class measure at once, one run each")
    parser.add_argument("--longest", type=float, default=math.inf, help="cancel a run after so many seconds")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    models = options.models or [name for name in PANEL if options.trained or name != TRAINED]
    try:
        for name in models:
            if name != TRAINED or not options.parts:
                entry(name, options.trained)
    except ValueError as error:
        parser.error(str(error))
    options.output.mkdir(parents=True, exist_ok=True)
    to_run = [(name, minutes) for minutes in options.minutes for name in models]
    with tempfile.TemporaryDirectory() as temporary, closing(Models(to_run, options.trained, options.parts)) as queue:
        devices = devices_of_one_class(options.gpus)
        data = options.data or Path(temporary) / "data"
        with Workbench(data, port=0, devices=devices, login=("--token", "--json")) as workbench:
            login = json.loads(workbench.login)
            print(f"serving on {workbench.url} for {len(devices)} x {devices[0].gpu_class}", flush=True)
            time.sleep(SETTLE_SECONDS)
            panel, stopping = Panel(devices[0].gpu_class, options.output, end, options.longest), threading.Event()
            with ThreadPoolExecutor(1 + len(devices)) as pool:
                pool.submit(workbench.watch, stopping)
                clients = [ApiClient(workbench.url, login["token"]) for _ in devices]
                threads = [pool.submit(measure_models, panel, queue, api, options.again) for api in clients]
                try:
                    wait(threads)
                except KeyboardInterrupt:
                    panel.end = 0.0
                    wait(threads)
                finally:
                    stopping.set()
                complete = sum(thread.result() for thread in threads)
    runs = len(to_run) * (1 + options.again)
    print(f"{complete} of {runs} runs ended with a verdict: {options.output / 'panel.json'}")
    return int(complete < runs)


if __name__ == "__main__":
    sys.exit(main())
