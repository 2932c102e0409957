"""The load of 300 people on one site with PostgreSQL and Redis on the same machine.

    python -m benchmarks.web_load                                   # two minutes, after as long to sign in
    python -m benchmarks.web_load --json benchmarks/results/2-core-epyc/web-load.json

The site runs as docker-compose.yml runs it, without nginx: the web server's processes and threads as the image sets
them, the worker API, the ledger's worker and its schedule, PostgreSQL 15 that waits for the disk, Redis with an
append-only file. No GPU worker takes the runs. Requests go out at times that a seed decides, and are timed from their
planned moment on. The load itself runs on the same cores, before the site where it may (as root); what it takes of them
is in the document as well.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.host import load_average, provenance, write
from benchmarks.web_clients import READS, SUBMIT, Observed, Person, play, schedule, sign_in_all
from kernels.load.server_process import reserve_port
from kernels.measure.intervals import percentile
from tests.debian import PostgresServer, postgres_server
from tests.redis_settings import redis_settings

ROOT = Path(__file__).parents[1]
MEMBERS = 10
LIMIT_MS = {"submit": 300, "reads": 150}
"""What the 99th percentiles must stay under."""


class Site:
    """The processes of the site in `folder`."""

    def __init__(self, folder: Path, postgres: PostgresServer) -> None:
        self.folder = folder
        self.web_port, worker_port, redis_port = (reserve_port() for _ in range(3))
        self.url = f"http://127.0.0.1:{self.web_port}"
        self.processes: dict[str, psutil.Popen] = {}
        self.env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "workbench.settings",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
            "DATABASE_URL": postgres.url,
            **redis_settings(redis_port),
            "WORKBENCH_DATA": str(folder / "data"),
            "PUBLIC_URL": self.url,
            "ORGANISATION_OPEN_RUNS": "1000",
            **image_environment(),
        }
        redis = [
            str(shutil.which("redis-server")),
            "--port",
            str(redis_port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(folder),
        ]
        self._start("redis", *redis, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
        self.python("manage.py", "migrate", "--verbosity", "0")
        gunicorn = ("-m", "gunicorn")
        self._start("web", sys.executable, *gunicorn, "workbench.wsgi", "--bind", f"127.0.0.1:{self.web_port}")
        worker_site = ("workbench.worker_site.wsgi", "--bind", f"127.0.0.1:{worker_port}")
        self._start("worker-api", sys.executable, *gunicorn, *worker_site)
        celery = ("-m", "celery", "-A", "workbench")
        self._start("ledger", sys.executable, *celery, "worker", "-Q", "ledger", "-c", "2", "-n", "ledger@%h")
        self._start("beat", sys.executable, *celery, "beat", "--scheduler", "celery.beat:Scheduler")

    def python(self, *arguments: str) -> str:
        """What a Python program beside the site prints. Raises CalledProcessError."""
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.env, stdout=subprocess.PIPE, text=True, check=True).stdout

    def wait(self) -> None:
        for _ in range(3000):
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"the site does not come up; see {self.folder}/web.log")

    def cpu_seconds(self) -> dict[str, float]:
        """What each process has used with its children."""
        return {name: _cpu(process) for name, process in self.processes.items()}

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = psutil.Popen(command, cwd=ROOT, env=self.env, stdout=log, stderr=log)


def image_environment() -> dict[str, str]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    words = re.search(r"^ENV (GUNICORN_CMD_ARGS=.*)$", text, re.MULTILINE)
    assert words
    return dict(word.split("=", 1) for word in shlex.split(words[1]))


@contextmanager
def running_site() -> Iterator[tuple[Site, PostgresServer]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="web-load-")))
        postgres = stack.enter_context(postgres_server("a-password", durable=True))
        site = Site(folder, postgres)
        stack.callback(site.stop)
        site.wait()
        yield site, postgres


def _cpu(process: psutil.Process) -> float:
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        times = member.cpu_times()
        total += times.user + times.system
    return total


def _postgres_cpu(postgres: PostgresServer) -> float:
    pid = int((postgres.folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    return _cpu(psutil.Process(pid))


@contextmanager
def going_first() -> Iterator[None]:
    """Let this process run before the site's, since browsers have processors of their own; as root only."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, usual)


def summary(observed: Sequence[Observed]) -> dict[str, Any]:
    """Count, errors and percentiles in ms."""
    times = sorted(request.seconds * 1e3 for request in observed)
    figures: dict[str, Any] = {"requests": len(times), "errors": sum(bool(request.error) for request in observed)}
    figures |= {f"p{p}_ms": round(percentile(times, p), 2) for p in (50, 95, 99)}
    return figures | {"max_ms": round(times[-1], 2)}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    load = [load_average()]
    with running_site() as (site, postgres):
        organisations = str(-(-arguments.clients // MEMBERS))
        seeded = json.loads(site.python("-m", "benchmarks.web_seed", organisations, str(MEMBERS)).splitlines()[-1])
        people = [Person(facts | {"site": site.url}, at) for at, facts in enumerate(seeded[: arguments.clients])]
        plan = schedule(arguments.clients, arguments.rate, arguments.seconds, arguments.seed)

        async def all_of_it() -> tuple[list[float], list[Observed], dict[str, float], float]:
            sign_ins = await sign_in_all(people)
            await play(people, schedule(arguments.clients, arguments.rate, 5, arguments.seed + 1))  # to warm up
            load.append(load_average())
            before, postgres_before, own = site.cpu_seconds(), _postgres_cpu(postgres), time.process_time()
            began = time.monotonic()
            observed = await play(people, plan)
            took = time.monotonic() - began
            used = {name: cpu - before[name] for name, cpu in site.cpu_seconds().items()}
            used |= {"postgres": _postgres_cpu(postgres) - postgres_before, "load": time.process_time() - own}
            return sign_ins, observed, used, took

        with going_first():
            sign_ins, observed, used, took = asyncio.run(all_of_it())
    load.append(load_average())
    kinds = defaultdict(list)
    for request in observed:
        kinds[request.planned.kind].append(request)
    groups = {
        "submit": summary(kinds[SUBMIT]),
        "reads": summary([request for request in observed if request.planned.kind != SUBMIT]),
    }
    within_limits = all(groups[name]["p99_ms"] < limit for name, limit in LIMIT_MS.items())
    errors = sorted({request.error for request in observed if request.error})
    return {
        **provenance(
            f"python -m benchmarks.web_load --clients {arguments.clients} --rate {arguments.rate:g}"
            f" --seconds {arguments.seconds:g} --seed {arguments.seed}"
        ),
        "server": image_environment(),
        "limits_ms": LIMIT_MS,
        "kept": within_limits and not errors,
        "groups": groups,
        "mix_of_reads": {kind: weight for kind, (_, weight) in READS.items()},
        "kinds": {kind: summary(of_kind) for kind, of_kind in sorted(kinds.items())},
        "sign_ins": {"count": len(sign_ins), "median_ms": round(sorted(sign_ins)[len(sign_ins) // 2] * 1e3)},
        "sent_late_ms": {
            "p99": round(percentile(sorted(request.late for request in observed), 99) * 1e3, 1),
            "max": round(max(request.late for request in observed) * 1e3, 1),
        },
        "cpu_seconds": {name: round(seconds, 1) for name, seconds in used.items()},
        "cpu_ms_of_a_request": {name: round(seconds * 1e3 / len(observed), 2) for name, seconds in used.items()},
        "cores_busy": round(sum(used.values()) / took, 2),
        "load_average": {"before": load[0], "as_the_load_begins": load[1], "after": load[2]},
        "errors": errors[:10],
    }


def main() -> int:
    """The exit status is 1 when a limit was not kept or a request failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web_load", description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--rate", type=float, default=100, help="requests per second, in all")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where the document goes; otherwise it is printed")
    arguments = parser.parse_args()
    document = measure(arguments)
    write(document, arguments.json)
    return 0 if document["kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
