"""A whole run of the workbench as a customer starts it, and all that it leaves.

    python -m benchmarks.workbench_run llama-3.2-1b --sla benchmarks/h200/flagship.yaml --output FOLDER

Starts Redis, web and workers, submits the model, waits, and writes into FOLDER: `run.json` (the results with device,
commit and events), `plan.json`, `report.html`, the result page as it was served, and the timelines of the traced
requests. What the run has not reached is left out. `--rerun` runs the plan once more on its own.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from kernels.measure.environment import commit
from kernels.model_files import catalogue
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError
from workbench.cli.follow import OVER
from workbench.cli.sla import read_sla
from workbench.embedded import Workbench
from workers.documents.workload import Sla

START = [sys.executable, "-c", "from workbench.cli import app; app()"]
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
TIMELINES = {"before": "timeline-before.json", "after": "timeline-after.json"}
FACTS = ("device", "gpu_uuid", "driver", "lease_id", "versions", "sources")


def stated(sla: Path, minutes: float | None, exclude: list[str], baseline: str = "") -> dict[str, Any]:
    """The SLA of the file with other minutes, baseline runner and excluded variants. Raises CliError."""
    document = read_sla(sla)
    if baseline:
        document["baseline_runner"] = baseline
    constraints = document.setdefault("constraints", {})
    if minutes is not None:
        constraints["minutes"] = minutes
    if exclude:
        constraints["exclude"] = sorted({*constraints.get("exclude", []), *exclude})
    return document


def summary(document: dict[str, Any]) -> str:
    """The SLA in one line, its minutes last."""
    sla = Sla.model_validate(document)
    promises = [
        f"{objective.label} {objective.direction.replace('_', ' ')} {objective.limit:g} {objective.unit}"
        if objective.limit is not None
        else f"{objective.label} at least {objective.at_least_faster:g} times as fast"
        for objective in sla.objectives
    ]
    traffic = f"{sla.traffic.prompt_tokens}-token prompt, {sla.traffic.output_tokens} output tokens"
    users = [f"up to {sla.load.most_users} users"] if sla.load else []
    users += [f"before {sla.baseline_runner}"] if sla.baseline_runner != "eager" else []
    excluded = [f"without {', '.join(sla.constraints.exclude)}"] if sla.constraints.exclude else []
    words = ", ".join([*promises, traffic, f"batch {sla.traffic.batch}", *users, *excluded])
    return f"{words}; minutes: {sla.constraints.minutes:g}"


@contextmanager
def submitted(model: str, sla: Path, env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """`workbench submit MODEL --sla FILE --wait`, stopped at the end of the block."""
    with subprocess.Popen([*START, "submit", model, "--sla", str(sla), "--wait"], env=env) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def followed(api: ApiClient, process: "subprocess.Popen[bytes]", end: float, until: str) -> None:
    """Waits for the end of the run; it is cancelled at `end`, by Ctrl-C, and once the stage `until` is done."""
    with suppress(KeyboardInterrupt):
        while process.poll() is None and time.monotonic() < end and until not in finished(api):
            time.sleep(1)
    for run in api.rows("/runs", 1):
        if run["state"] not in OVER:
            api.post(f"/runs/{run['id']}/cancel", {})
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)


def finished(api: ApiClient) -> set[str]:
    runs = [api.get(f"/runs/{row['id']}") for row in api.rows("/runs", 1)]
    return {stage["stage"] for run in runs for stage in run["stages"] if stage["state"] == "done"}


def pages(url: str, login: dict[str, str], run: str) -> Iterator[tuple[str, bytes]]:
    """(file name, content) of the result page, and of the timelines that it draws, as a signed-in member gets them."""
    with httpx.Client(base_url=url, timeout=60) as http:
        match = TOKEN.search(http.get("/login/").text)
        form = {
            "csrfmiddlewaretoken": match[1] if match else "",
            "username": login["email"],
            "password": login["password"],
        }
        http.post("/login/", data=form, headers={"Referer": f"{url}/login/"})
        paths = {"result.html": "result/"} | {file: f"timeline/{side}.json" for side, file in TIMELINES.items()}
        for file, path in paths.items():
            answer = http.get(f"/runs/{run}/{path}")
            if answer.status_code == 200:
                yield file, answer.content


def events(api: ApiClient, run: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        more = api.get(f"/runs/{run}/events", after=rows[-1]["id"] if rows else 0)["items"]
        rows += more
        if not more:
            return rows


def rerun(folder: Path, model: str) -> list[dict[str, Any]]:
    """What `kernels run` measures of FOLDER/plan.json, in a process of its own; nothing where there is no plan."""
    if not (folder / "plan.json").exists():
        return []
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(model)
        if model in catalogue.names():
            directory = Path(temporary)
            (directory / "config.json").write_text(json.dumps(catalogue.entry(model)[0]))
        command = [
            sys.executable,
            "-m",
            "kernels",
            "run",
            "--plan",
            str(folder / "plan.json"),
            "--model",
            str(directory),
        ]
        output = Path(temporary) / "rerun.out"
        subprocess.run([*command, "--json", str(output)], check=False)
        return [json.loads(output.read_text())] if output.exists() else []


def written(folder: Path, name: str, content: Callable[[], bytes]) -> None:
    """FOLDER/NAME with the content, if the run has it."""
    with suppress(CliError):
        (folder / name).write_bytes(content())


def surroundings(results: dict[str, Any]) -> dict[str, Any]:
    """Where a run measured: the device, the libraries and the commit that its first measuring stage names, and now."""
    measured = [stage["environment"] for stage in results.values() if stage and stage.get("environment")]
    environment: dict[str, Any] = measured[0] if measured else {}
    return {
        **{name: environment.get(name) for name in FACTS},
        "commit": environment.get("commit") or commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def collected(api: ApiClient, folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Writes plan and report, and gives the document of the newest run."""
    run = api.get(f"/runs/{next(api.rows('/runs', 1))['id']}")
    path = f"/runs/{run['id']}"
    written(folder, "plan.json", lambda: json.dumps(api.get(f"{path}/plan"), indent=1).encode() + b"\n")
    written(folder, "report.html", lambda: api.content(f"{path}/report"))
    results = api.get(f"{path}/result")["results"]
    return {
        **facts,
        **surroundings(results),
        "verdict": run["verdict"],
        "run": run,
        "results": results,
        "events": events(api, run["id"]),
        "reruns": [],
    }


def main() -> int:
    """0 when the run has ended by itself, or the stage of `--until` is done; 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="the name of a catalogue entry, or a model's directory")
    parser.add_argument("--sla", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="folder for what the run leaves")
    parser.add_argument("--minutes", type=float, help="instead of the SLA's")
    parser.add_argument("--baseline", default="", metavar="RUNNER", help="what runs today, instead of the SLA's")
    parser.add_argument("--exclude", action="append", default=[], metavar="VARIANT", help="not to be used; repeatable")
    parser.add_argument("--until", default="", metavar="STAGE", help="cancel the run once this stage is done")
    parser.add_argument("--seconds", type=float, default=3600, help="cancel the run so long after the start")
    parser.add_argument(
        "--data", type=Path, help="the workbench's data, with its compilers' caches, kept for another run"
    )
    parser.add_argument("--rerun", action="store_true", help="also run the plan once more")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        sla = Path(temporary) / "sla.yaml"
        try:
            document = stated(options.sla, options.minutes, options.exclude, options.baseline)
        except CliError as error:
            parser.error(" ".join(error.lines))
        sla.write_text(yaml.safe_dump(document))
        with Workbench(data=options.data or Path(temporary) / "data", port=0, login=("--token", "--json")) as workbench:
            login = json.loads(workbench.login)
            env = {**os.environ, "WORKBENCH_URL": workbench.url, "WORKBENCH_TOKEN": login["token"]}
            api, began = ApiClient(workbench.url, login["token"]), time.monotonic()
            print(
                f"serving on {workbench.url} for {', '.join(device.gpu_class for device in workbench.devices)}",
                flush=True,
            )
            with submitted(options.model, sla, env) as process:
                followed(api, process, end, options.until)
            facts = {
                "model": options.model,
                "sla": summary(document),
                "command": f"workbench submit {options.model} --sla {options.sla.name} --wait",
                "exit_code": process.wait(),
                "wall_seconds": round(time.monotonic() - began, 1),
            }
            result = collected(api, options.output, facts)
            for name, content in pages(workbench.url, login, result["run"]["id"]):
                (options.output / name).write_bytes(content)
        run_file = options.output / "run.json"
        run_file.write_text(json.dumps(result, indent=1) + "\n")
        if options.rerun:
            result["reruns"] = rerun(options.output, options.model)
            run_file.write_text(json.dumps(result, indent=1) + "\n")
    run = result["run"]
    print(f"{run['state']}, verdict {run['verdict']}, {facts['wall_seconds']} s: {options.output}")
    return 0 if run["state"] == "done" or (options.until and run["state"] in OVER) else 1


if __name__ == "__main__":
    sys.exit(main())
