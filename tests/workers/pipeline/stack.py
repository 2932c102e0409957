"""The real processes of the pipeline, each of which a test may kill and start again."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg

from kernels.load.server_process import reserve_port
from tests.debian import PostgresServer
from tests.migrated import copy_database
from tests.sample_results import workload
from tests.waiting import wait_for
from workbench.embedded.broker import USERS, find_redis_server, redis_urls, user_rules

ROOT = Path(__file__).resolve().parents[3]
SERVER = "workbench.serving.worker.BufferingWorker"
REDIS_PASSWORDS = {role: f"a-password-of-{role}" for role in USERS}
"""Of the roles. The tests themselves are Redis' default user, who needs none and may do everything."""
FAST = {
    "HEARTBEAT_SECONDS": "0.5", "LEASE_SECONDS": "12", "SWEEP_SECONDS": "1", "REPUBLISH_SECONDS": "5",
    "CELERY_SKIP_CHECKS": "1", "WORKBENCH_STAGE_PACKAGE": "tests.workers.tiny_stages",
}  # fmt: skip


class Stack:
    """Redis, web, worker API, a ledger worker with its beat, and GPU workers of class cpu, on ports of its own.

    `postgres` and `redis_server` default to SQLite and the embedded Redis; `settings` go before those of FAST.
    """

    def __init__(
        self,
        directory: Path,
        postgres: PostgresServer | None = None,
        redis_server: str = "",
        workers: Sequence[str] = ("worker",),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory, self.workers = directory, workers
        self.ended: Counter[str] = Counter()
        self.submitted: list[str] = []
        self.postgres = postgres
        self.redis_server = redis_server or find_redis_server()
        self.redis_port, self.web_port, self.worker_api_port = reserve_port(), reserve_port(), reserve_port()
        self.told = directory / "told"
        self.told.mkdir(parents=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        urls = redis_urls(REDIS_PASSWORDS, f"127.0.0.1:{self.redis_port}")
        self.worker_env = {
            **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}, **FAST,
            **(settings or {}), "WORKBENCH_DATA": str(directory / "data"),
            "WORKER_API_URL": f"http://127.0.0.1:{self.worker_api_port}", "REDIS_URL": urls.gpu,
            "WORKER_TOKEN": "a-token-for-the-test", "WORKBENCH_STAGE_TEST_DIR": str(self.told),
        }  # fmt: skip
        self.env = {
            **self.worker_env, "DJANGO_SETTINGS_MODULE": "workbench.settings", "REDIS_URL": urls.ledger,
            "GPU_REDIS_URL": urls.gpu_sender, "CACHE_URL": urls.cache, "API_REQUESTS_PER_MINUTE": "9999",
        }  # fmt: skip
        if postgres:
            self.env["DATABASE_URL"] = postgres.url
        self.worker_env.pop("DATABASE_URL", None)

    def start(self) -> None:
        self.start_redis()
        if not self.postgres:
            copy_database(self.directory / "data")
        seeded = json.loads(self._python(str(Path(__file__).with_name("seed.py"))).splitlines()[-1])
        self.start_web()
        self.start_worker_api()
        for name in self.workers:
            self.start_worker(name)
        self.start_ledger()
        self.digest = seeded["digest"]
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{self.web_port}/api/v1",
            headers={"Authorization": f"Bearer {seeded['token']}"},
            timeout=120,
        )
        self.until(self.web_answers, "the web process")

    def until(self, condition: Callable[[], Any], what: str, logs: Callable[[], str] | None = None) -> Any:
        """Wait for the condition, while every process runs."""
        return wait_for(condition, 300, what, logs or self.logs, self.processes)

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def start_redis(self) -> None:
        folder = self.directory / "redis"
        folder.mkdir(exist_ok=True)
        options = ["--port", str(self.redis_port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"]
        users = [word for rule in user_rules(REDIS_PASSWORDS) for word in f"--{rule}".split()]
        self._start("redis", self.env, self.redis_server, *options, *durable, *users)
        started = {"redis": self.processes["redis"]}
        wait_for(lambda: self.redis("PING").startswith(b"+PONG"), 120, "Redis", self.logs, started)

    def start_web(self) -> None:
        self._serve("web", "workbench.wsgi", self.web_port)

    def start_worker_api(self) -> None:
        self._serve("worker-api", "workbench.worker_site.wsgi", self.worker_api_port)

    def start_worker(self, name: str = "worker", gpu_class: str = "cpu", env: Mapping[str, str] | None = None) -> None:
        self._start(name, self.worker_env | dict(env or {}), *self._celery("workers.gpu", f"gpu.{gpu_class}", name))

    def start_ledger(self) -> None:
        """With the schedule in memory: one in a file ends when the disk is full."""
        schedule = ("--beat", "--scheduler", "celery.beat:Scheduler")
        self._start("ledger", self.env, *self._celery("workbench", "ledger,intake", "ledger", *schedule))

    def start_again(self, name: str) -> None:
        known = {"redis": self.start_redis, "web": self.start_web, "worker-api": self.start_worker_api}
        known["ledger"] = self.start_ledger
        known.get(name, lambda: self.start_worker(name))()

    def start_what_ended(self) -> None:
        """Start again what has ended by itself, as a service manager does, and count it in `ended`."""
        for name in [name for name, process in self.processes.items() if process.poll() is not None]:
            self.ended[name] += 1
            self.processes.pop(name).wait()
            self.start_again(name)

    def kill(self, name: str) -> None:
        """kill -9 the process itself, as a crash would; what hangs on it must fall by itself."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def terminate(self, name: str, seconds: float, group: bool = False) -> int:
        """Ask the process to stop, as `docker compose stop` does, or its whole process group; its exit status."""
        process = self.processes.pop(name)
        if group:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.terminate()
        return process.wait(seconds)

    def submit(self, request: str, **kwargs: Any) -> str:
        """Start a run whose stages behave as asked; its id. `kwargs` replaces fields of the workload."""
        document = workload().model_copy(update={"name": request, "model": self.digest})
        handed_in = self.api.post("/workloads", json=document.model_dump(mode="json") | kwargs)
        assert handed_in.status_code == 201, handed_in.text
        answer = self.api.post("/runs", json={"workload": handed_in.json()["id"]})
        assert answer.status_code == 201, answer.text
        self.submitted.append(str(answer.json()["id"]))
        return self.submitted[-1]

    def recover(self) -> None:
        """Bring back what a failed test left: else each later test waits five minutes for a worker that is busy."""
        self.start_what_ended()
        for name in ("redis", "web", "worker-api", "ledger", *self.workers):
            if name not in self.processes:
                self.start_again(name)
        self.until(self.web_answers, "the web process")
        for run_id in self.submitted:
            self.api.post(f"/runs/{run_id}/cancel")
        self.submitted.clear()

    def hand_in(self, content: bytes) -> str:
        """Hand in a recording of traffic; its SHA-256."""
        sha256 = hashlib.sha256(content).hexdigest()
        file = {"path": "calls.csv", "size": len(content), "sha256": sha256}
        upload = self.api.post("/uploads", json={"holds": "recording", "name": "calls", "files": [file]}).json()["id"]
        self.api.patch(f"/uploads/{upload}/files/0", content=content, headers={"Upload-Offset": "0"}).raise_for_status()
        self.api.post(f"/uploads/{upload}/finish", json={"files": []}).raise_for_status()
        wait_for(lambda: self.api.get(f"/uploads/{upload}").json()["state"] == "finished", 300, "the recording")
        return sha256

    def claim_at_once(self, run_id: str, many: int) -> list[int]:
        """The status codes of `many` simultaneous claims of the run's first attempt."""
        headers = {"Authorization": f"Bearer {self.env['WORKER_TOKEN']}"}
        url = f"{self.env['WORKER_API_URL']}/api/v1/worker/claim"
        key = {"run_id": run_id, "stage": "admit", "attempt": 1}

        def claim(number: int) -> int:
            return httpx.post(url, json={**key, "worker": f"w{number}"}, headers=headers, timeout=120).status_code

        with ThreadPoolExecutor(many) as pool:
            return sorted(pool.map(claim, range(many)))

    def end_lease(self, run_id: str) -> None:
        """Do to the database as if LEASE_SECONDS were over, where a test waits for that often."""
        change = "UPDATE runs_run SET lease_until = heartbeat_at WHERE id = "
        if self.postgres:
            with psycopg.connect(self.postgres.url) as server:
                server.execute(change + "%s", [run_id])
        else:
            with contextlib.closing(sqlite3.connect(self.directory / "data" / "db.sqlite3", timeout=120)) as file, file:
                file.execute(change + "?", [uuid.UUID(run_id).hex])

    def run(self, run_id: str) -> dict[str, Any]:
        return dict(self.api.get(f"/runs/{run_id}").json())

    def wait(self, run_id: str) -> dict[str, Any]:
        """The run once it is over."""
        self.until(
            lambda: self.run(run_id)["state"] not in ("queued", "running"), f"the end of {run_id}",
            lambda: f"{self.story(run_id)}\n{self.logs()}",
        )  # fmt: skip
        return self.run(run_id)

    def events(self, run_id: str, kind: str) -> list[tuple[str, int]]:
        """(stage, attempt) of the run's events of one kind."""
        items = self.api.get(f"/runs/{run_id}/events", params={"limit": 1000}).json()["items"]
        return [(item["stage"], item["attempt"]) for item in items if item["kind"] == kind]

    def story(self, run_id: str) -> str:
        items = self.api.get(f"/runs/{run_id}/events", params={"limit": 1000}).json()["items"]
        return "\n".join(f"{item['at']} {item['kind']} {item['stage']} {item['message']}" for item in items)

    def stage_told(self, run_id: str, attempt: int = 1) -> dict[str, Any]:
        """What the stage that hangs or pauses says about itself at this attempt or a later one."""

        def told() -> dict[str, Any]:
            text = self._told(run_id)
            return text if text.get("attempt", 1) >= attempt else {}

        return dict(self.until(told, f"the start of attempt {attempt}"))

    def _told(self, run_id: str) -> dict[str, Any]:
        items = self.api.get(f"/runs/{run_id}/events", params={"limit": 1000}).json()["items"]
        text = [item["message"] for item in items if item["kind"] == "progress" and item["message"].startswith("{")]
        return dict(json.loads(text[-1])) if text else {}

    def go(self, run_id: str) -> None:
        (self.told / f"{run_id}.go").touch()

    def logs(self) -> str:
        """The ends of the logs, for a failed test's message."""
        ends = []
        for log in sorted(self.directory.glob("*.log")):
            ends.append(f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:]))
        return "\n".join(ends)

    def tree(self, name: str) -> list[int]:
        pid = self.processes[name].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def _celery(self, module: str, queue: str, node: str, *more: str) -> Sequence[str]:
        command = [sys.executable, "-m", "celery", "-A", module, "worker", "-Q", queue, "-c", "1"]
        return [*command, "-n", f"{node}@%h", "--without-mingle", "--without-gossip", "--loglevel", "INFO", *more]

    def _serve(self, name: str, module: str, port: int) -> None:
        command = ["-m", "gunicorn", module, "--bind", f"127.0.0.1:{port}", "--threads", "4", "--no-control-socket"]
        self._start(name, self.env, sys.executable, *command, "--worker-class", SERVER)

    def _start(self, name: str, env: Mapping[str, str], *command: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0,
            )  # fmt: skip

    def _python(self, *arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def redis(self, command: str) -> bytes:
        """Redis' answer to a command without arguments; empty when it does not listen."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.redis_port), timeout=10) as peer:
            peer.sendall(command.encode() + b"\r\n")
            return peer.recv(64)
        return b""

    def web_answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return self.api.get("/me", timeout=10).status_code == 200
        return False


def kill_process(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
