"""Runs under faults that a seed draws: every process killed, Redis frozen, messages lost and doubled, a full disk.

    python -m tests.chaos                                  # 50 runs on PostgreSQL; needs root, for a disk of its own
    python -m tests.chaos --runs 5 --seed 7 --json chaos.json

The processes are real, the stages are those of `tests/workers/tiny_stages`, each in a confined process. A fault comes
every few seconds, one at a time, until every run is over; what has ended is started again, as a service manager does.
A run is lost when it does not end as done, doubled when a stage counted more than once or a run was made twice. Three
attempts at one stage that die lose a run by design: a third one is not killed.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from redis.exceptions import RedisError

from benchmarks.host import load_average, provenance, write
from tests.chaos_faults import WORKERS, Faults
from tests.debian import postgres_server
from tests.sample_results import workload
from tests.workers.pipeline.stack import Stack
from workers.documents.stages import stages_of

DISK_MEBIBYTES, RESERVE_MEBIBYTES = 1024, 8
PAUSE_SECONDS = 5.0
"""Between two faults, on average."""
SUBMIT_SECONDS = 4.0
"""Between two runs, on average."""
MAX_SECONDS = 45 * 60
SETTINGS = {"HEARTBEAT_SECONDS": "1", "LEASE_SECONDS": "10", "SWEEP_SECONDS": "2", "REPUBLISH_SECONDS": "10"}
SETTINGS |= {"DISK_RESERVE_BYTES": str(RESERVE_MEBIBYTES << 20)}


class Submitter(threading.Thread):
    """Hands in runs over the REST API, one now and then, as a client that repeats what was not answered."""

    def __init__(self, stack: Stack, runs: int, seed: int) -> None:
        super().__init__(name="submitter", daemon=True)
        self.stack, self.runs, self.generator = stack, runs, random.Random(seed)
        self.made: list[str] = []

    def run(self) -> None:
        for number in range(self.runs):
            document = workload().model_copy(update={"name": f"chaos {number}", "model": self.stack.digest})
            handed_in = self._post("/workloads", document.model_dump(mode="json"))
            self.made.append(str(self._post("/runs", {"workload": handed_in["id"]})["id"]))
            time.sleep(self.generator.expovariate(1 / SUBMIT_SECONDS))

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Idempotency-Key": str(uuid.UUID(int=self.generator.getrandbits(128)))}
        while True:
            try:
                answer = self.stack.api.post(path, json=body, headers=headers)
                if answer.status_code == 201:
                    return dict(answer.json())
                assert answer.status_code >= 500 or answer.status_code == 409, answer.text
            except httpx.TransportError:
                pass
            time.sleep(0.5)


class Database:
    """What the database says, asked past everything else."""

    def __init__(self, stack: Stack) -> None:
        os.environ |= {name: stack.env[name] for name in ("DATABASE_URL", "WORKBENCH_DATA") if name in stack.env}
        os.environ["DJANGO_SETTINGS_MODULE"] = "workbench.settings"
        import django

        django.setup()

    def ask(self, question: Any) -> Any:
        """The answer, however long the database is away."""
        from django.db import DatabaseError, connection

        while True:
            try:
                return question()
            except DatabaseError:
                connection.close()
                time.sleep(0.5)

    def runs(self) -> list[Any]:
        """Every run, oldest first."""
        from workbench.runs.models import Run

        return list(self.ask(lambda: list(Run.objects.order_by("created_at"))))

    def worst_attempt(self) -> int:
        """The highest number of an attempt that is not over."""
        return max((run.attempt for run in self.runs() if run.is_open), default=0)

    def events(self, run: Any) -> list[tuple[str, str, int]]:
        """Kind, stage and attempt of what befell the run."""
        return list(self.ask(lambda: list(run.events.values_list("kind", "stage", "attempt"))))


def main() -> int:
    """The exit status is 1 when a run was lost or doubled, or not all of them were handed in."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--json", type=Path, help="where the document goes; it is printed as well")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is None:
        return _on_a_disk_of_its_own()
    document = _play(arguments)
    write(document, arguments.json)
    handed_in = document["runs"] == arguments.runs
    return 0 if handed_in and not document["runs_lost"] and not document["runs_doubled"] else 1


def _on_a_disk_of_its_own() -> int:
    """Start again in a mount namespace, with a small disk that can be filled."""
    if os.geteuid() != 0:
        print("chaos: needs root, to mount a small disk that it can fill", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        mount = f'mount -t tmpfs -o size={DISK_MEBIBYTES}m none "$1" && chmod 755 "$1" && shift && exec "$@"'
        again = [sys.executable, "-m", "tests.chaos", *sys.argv[1:], "--folder", folder]
        return subprocess.run(["unshare", "--mount", "sh", "-c", mount, "sh", folder, *again], check=False).returncode


def _play(arguments: argparse.Namespace) -> dict[str, Any]:
    load, began = load_average(), time.monotonic()
    with ExitStack() as servers:
        postgres = servers.enter_context(postgres_server("a-password")) if arguments.database == "postgresql" else None
        redis_server = str(shutil.which("redis-server")) if postgres else ""
        stack = Stack(arguments.folder / "stack", postgres, redis_server, workers=WORKERS, settings=SETTINGS)
        servers.callback(stack.stop)
        stack.start()
        database = Database(stack)
        faults = Faults(stack, random.Random(arguments.seed), database.worst_attempt)
        submitter = Submitter(stack, arguments.runs, arguments.seed)
        submitter.start()
        injected = _until_all_are_over(stack, submitter, faults, database)
        runs = database.runs()
        result = {run.id: database.events(run) for run in runs}
    there = {str(run.id) for run in runs}
    done = [("stage_done", stage) for stage in stages_of(load=False)]
    lost = [run for run in runs if run.state != "done"]
    doubled = [run for run in runs if _counts_twice(result[run.id])]
    incomplete = [run for run in runs if [item[:2] for item in result[run.id] if item[0] == "stage_done"] != done]
    ended = Counter(kind for events in result.values() for kind, _, _ in events if kind in ("retried", "handed_back"))
    return {
        **provenance(
            f"python -m tests.chaos --runs {arguments.runs} --seed {arguments.seed} --database {arguments.database}"
        ),
        "load_average": {"before": load, "after": load_average()},
        "seconds": round(time.monotonic() - began),
        "runs": len(submitter.made),
        "runs_lost": len({run.id for run in lost + incomplete}) + len(set(submitter.made) - there),
        "runs_doubled": len(doubled) + len(there - set(submitter.made)),
        "faults_injected": sum(injected.values()),
        "faults": dict(sorted(injected.items())),
        "attempts_that_died": ended["retried"],
        "attempts_handed_back": ended["handed_back"],
        "processes_that_ended_by_themselves": dict(stack.ended),
        "lost": [f"{run.state}: {(run.error or {}).get('sentence', '')}" for run in lost],
    }


def _until_all_are_over(stack: Stack, submitter: Submitter, faults: Faults, database: Database) -> Counter[str]:
    """Inject faults until every run has ended; how many of each."""
    injected: Counter[str] = Counter()
    deadline = time.monotonic() + MAX_SECONDS
    while submitter.is_alive() or any(run.is_open for run in database.runs()):
        if time.monotonic() > deadline:
            print(f"chaos: gave up after {MAX_SECONDS} s\n{stack.logs()}", file=sys.stderr)
            break
        time.sleep(min(30.0, faults.generator.expovariate(1 / PAUSE_SECONDS)))
        stack.start_what_ended()
        try:
            name = faults.inject()
        except RedisError:
            continue  # it was still on its way up
        if name:
            injected[name] += 1
            print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
    return injected


def _counts_twice(events: list[tuple[str, str, int]]) -> bool:
    """Whether a stage was done more than once, or one attempt was given away more than once."""
    done = Counter(stage for kind, stage, _ in events if kind == "stage_done")
    claimed = Counter((stage, attempt) for kind, stage, attempt in events if kind == "claimed")
    return any(count > 1 for count in (*done.values(), *claimed.values()))


if __name__ == "__main__":
    sys.exit(main())
