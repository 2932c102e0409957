"""Whole runs of many models, and how far each chosen plan is from the best that is known of the model (*regret*).

    python -m benchmarks.panel --output FOLDER                    # the panel, 3 minutes each; --trained adds a model
    python -m benchmarks.panel --output FOLDER --models smollm2-360m llama-9-layers --minutes 3 6
    python -m benchmarks.panel --output FOLDER --models qwen3-0.6b --data DATA --again
    python -m benchmarks.panel --output FOLDER --trained MODEL --parts PARTS    # unpacks it beside the first run

Starts one site, submits one workload after the other with default settings but the minutes, and writes
FOLDER/panel.json after each run. Times are counted from the API call that creates the run. `--again` submits each
workload twice; with `--data` a second command finds what the first one left.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.panel_promises import PANEL, TRAFFIC, TRAINED, Entry, Promise, entry, promise
from benchmarks.workbench_run import surroundings
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError
from workbench.cli.follow import OVER
from workbench.cli.references import model_reference
from workbench.embedded import Workbench
from workbench.embedded.devices import find_devices
from workers.documents.stages import PlanTrial, Results
from workers.wording.stages import SHORT_OF_TIME

PRESENT = "eager"
"""The plan that runs today, by default."""
POLL_SECONDS = 0.5
CANCEL_SECONDS = 30
UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("seconds_to_first_plan", "seconds_to_verdict", "verdict", "chosen", "figure", "unit", "before")),
    **{"regret": None, "stages": {}, "not_tried_for_time": [], "sentence": ""},
}
"""What a row has of a run that found nothing."""
FIGURE = re.compile(r"[\d.,e+-]+ \S+")
"""A measured figure with its unit, as the stage says it of a plan while it tries others."""


def submitted(api: ApiClient, of: Entry, promised: Promise, minutes: float) -> dict[str, Any]:
    """The run that was created. Raises CliError where the workbench refuses it."""
    workload = {
        "name": f"{of.name}, {minutes:g} minutes",
        "model": model_reference(api, of.reference),
        "traffic": TRAFFIC,
        "objectives": [promised.objective],
        "constraints": {"minutes": minutes},
    }
    run: dict[str, Any] = api.post("/runs", {"workload": api.post("/workloads", workload)["id"]})
    return run


def followed(api: ApiClient, run: dict[str, Any], end: float) -> tuple[dict[str, Any], float | None]:
    """The run when it is over, and the seconds until another plan than today's had a figure; cancelled at `end`.

    Prints each line of progress with the seconds since the start.
    """
    began, first, cancelled, printed = time.monotonic(), None, False, ""
    while run["state"] not in OVER and time.monotonic() < end + CANCEL_SECONDS:
        if time.monotonic() > end and not cancelled:
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
            print(f"  {time.monotonic() - began:6.1f} s {progress}", flush=True)
    return run, first


def measured_plans(compose: dict[str, Any]) -> set[str]:
    """The plans other than today's that the stage has a figure of, while it tries others too; none of a search that was
    taken over.
    """
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


def outcome(run: dict[str, Any], results: Results, best: float | None) -> dict[str, Any]:
    """What a run found, and how long it took to find it."""
    stages = {stage["stage"]: stage for stage in run["stages"]}
    taken = {name: seconds(stage["started_at"], stage["finished_at"]) for name, stage in stages.items()}
    trials: list[PlanTrial] = results.compose.trials if results.compose else []
    row = {
        "seconds_to_verdict": seconds(run["created_at"], stages["verify"]["finished_at"]),
        "verdict": run["verdict"],
        "stages": {name: seconds for name, seconds in taken.items() if seconds is not None},
        "not_tried_for_time": [trial.label for trial in trials if SHORT_OF_TIME.search(trial.reason)],
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

    def __init__(self, api: ApiClient, gpu_class: str, folder: Path, end: float, longest: float = math.inf) -> None:
        self._api, self._gpu, self._end, self._longest = api, gpu_class, end, longest
        self._file = folder / "panel.json"
        self._document: dict[str, Any] = {}
        self._rows: list[dict[str, Any]] = []

    def add(self, of: Entry, minutes: float) -> bool:
        """Measures a model and adds its row; whether its run has ended by itself, with a verdict."""
        promised = promise(of, self._gpu, self._rows)
        stated = {"model": of.name, "gpu": self._gpu, "minutes": minutes, "promise": promised.objective}
        known = {"predicted": promised.predicted, "best": promised.best, "best_source": promised.source}
        names = {row["model_name"] for row in self._api.rows("/runs", 1000)}
        stated["again"] = bool(names & {of.name, Path(of.reference).name})
        try:
            run = submitted(self._api, of, promised, minutes)
        except CliError as error:
            self._write(stated | UNKNOWN | known | {"sentence": " ".join(error.lines)}, {})
            return False
        run, first = followed(self._api, run, min(self._end, time.monotonic() + self._longest))
        raw = self._api.get(f"/runs/{run['id']}/result")["results"]
        measured = outcome(run, Results.model_validate(raw), promised.best)
        measured["seconds_to_first_plan"] = None if first is None else round(first, 1)
        self._write(stated | measured | known, raw)
        return bool(measured["verdict"])

    def _write(self, row: dict[str, Any], results: dict[str, Any]) -> None:
        where = surroundings(results)
        self._rows.append(row)
        if self._document.get("device") is None:
            self._document = where
        document = self._document | {"at": where["at"], "traffic": TRAFFIC, "rows": self._rows}
        self._file.write_text(json.dumps(document, indent=1) + "\n")
        times = f"first plan {row['seconds_to_first_plan']} s, verdict {row['seconds_to_verdict']} s"
        figures = f"{row['figure']} of {row['best']}, regret {row['regret']}"
        print(f"{row['model']}, {row['minutes']:g} minutes: {row['verdict']}, {row['chosen']}, {figures}; {times}")
        print(f"  {row['sentence']}", flush=True)


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
    unpacking = None
    if options.parts:
        unpack = ["-m", "benchmarks.trained_model", str(options.trained), "--unpack", str(options.parts)]
        unpacking = subprocess.Popen(["nice", sys.executable, *unpack])
    options.output.mkdir(parents=True, exist_ok=True)
    wanted = [(name, minutes) for minutes in options.minutes for name in models for _ in range(1 + options.again)]
    with tempfile.TemporaryDirectory() as temporary:
        (device, *_) = find_devices()
        with Workbench(data=options.data or Path(temporary) / "data", port=0, devices=[device]) as workbench:
            login = json.loads(workbench.manage("create_login", "--token", "--json"))
            print(f"serving on {workbench.url} for {device.gpu_class}", flush=True)
            api = ApiClient(workbench.url, login["token"])
            panel = Panel(api, device.gpu_class, options.output, end, options.longest)
            complete = 0
            with suppress(KeyboardInterrupt):
                for name, minutes in wanted:
                    if time.monotonic() > end:
                        break
                    if name == TRAINED and unpacking is not None and unpacking.wait():
                        continue  # it has said why
                    complete += panel.add(entry(name, options.trained), minutes)
    print(f"{complete} of {len(wanted)} runs ended with a verdict: {options.output / 'panel.json'}")
    return int(complete < len(wanted))


if __name__ == "__main__":
    sys.exit(main())
