"""What chaos does to the processes of a stack, one function a fault; each says whether there was something to hit."""

import contextlib
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psutil
import psycopg
import redis

from tests.workbench.small_disk import fill
from tests.workers.pipeline.stack import Stack
from workbench.embedded.broker import GPU_DATABASE, LEDGER_DATABASE

WORKERS = ("worker-0", "worker-1")
QUEUES = {"gpu.cpu": GPU_DATABASE, "ledger": LEDGER_DATABASE}
LAST_ATTEMPT = 3


class Faults:
    """The faults, drawn by `inject`. `worst_attempt` tells the highest number of an attempt that is not over."""

    def __init__(self, stack: Stack, generator: random.Random, worst_attempt: Callable[[], int]) -> None:
        self.stack, self.generator, self.worst_attempt = stack, generator, worst_attempt
        self.round: list[str] = []
        self.all: dict[str, Callable[[], Any]] = {
            "kill -9 of the web server": lambda: self._kill("web"),
            "kill -9 of the worker API": lambda: self._kill("worker-api"),
            "kill -9 of a web process": lambda: self._kill_below("web", "gunicorn"),
            "kill -9 of a GPU worker": lambda: self._ends_an_attempt(self._kill, self.generator.choice(WORKERS)),
            "kill -9 of a GPU worker's pool": lambda: self._ends_an_attempt(self._kill_pool),
            "kill -9 of a stage": lambda: self._ends_an_attempt(self._kill_stage),
            "SIGTERM to a GPU worker's group": self._stop_worker,
            "kill -9 of the ledger's worker": lambda: self._kill("ledger"),
            "kill -9 of Redis": lambda: self._kill("redis"),
            "a frozen Redis": self._freeze_redis,
            "a frozen GPU worker": lambda: self._ends_an_attempt(self._freeze_worker),
            "a locked database": self._lock_database,
            "lost messages": self._lose_messages,
            "doubled messages": self._double_messages,
            "a full disk": self._fill_disk,
        }
        if stack.postgres:
            self.all["a crash of PostgreSQL"] = self._crash_postgres

    def inject(self) -> str:
        """Inject the next fault of a shuffled round of all; its name, or "" when there was nothing to hit."""
        if not self.round:
            self.round = self.generator.sample(list(self.all), len(self.all))
        name = self.round.pop()
        return name if self.all[name]() else ""

    def _ends_an_attempt(self, fault: Callable[..., Any], *arguments: Any) -> Any:
        """Three attempts that die make a run lost, and are meant to: the third is left alone."""
        return self.worst_attempt() < LAST_ATTEMPT and fault(*arguments)

    def _kill(self, name: str) -> bool:
        if name not in self.stack.processes:
            return False
        self.stack.kill(name)
        time.sleep(self.generator.uniform(0, 2))
        self.stack.start_again(name)
        return True

    def _below(self, name: str, word: str) -> list[psutil.Process]:
        """The processes under one of the stack's, whose command line has the word."""
        result = []
        try:
            for child in psutil.Process(self.stack.processes[name].pid).children(recursive=True):
                if any(word in part for part in child.cmdline()):
                    result.append(child)
        except psutil.NoSuchProcess:
            pass
        return result

    def _kill_one(self, found: list[psutil.Process]) -> bool:
        if not found:
            return False
        try:
            self.generator.choice(found).kill()
        except psutil.NoSuchProcess:
            return False
        return True

    def _kill_below(self, name: str, word: str) -> bool:
        return self._kill_one(self._below(name, word))

    def _kill_pool(self) -> bool:
        return self._kill_below(self.generator.choice(WORKERS), "celery")

    def _kill_stage(self) -> bool:
        return self._kill_one([item for name in WORKERS for item in self._below(name, "tiny_stages")])

    def _stop_worker(self) -> bool:
        name = self.generator.choice(WORKERS)
        self.stack.terminate(name, 60, group=True)
        self.stack.start_again(name)
        return True

    def _freeze_redis(self) -> bool:
        process = self.stack.processes["redis"]
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.generator.uniform(1, 6))
        process.send_signal(signal.SIGCONT)
        return True

    def _freeze_worker(self) -> bool:
        """For up to a lease and a half: then its attempt is given to another, and it must notice."""
        worker = psutil.Process(self.stack.processes[self.generator.choice(WORKERS)].pid)
        frozen = [worker, *worker.children(recursive=True)]
        for item in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                item.suspend()
        time.sleep(self.generator.uniform(1, 15))
        for item in frozen:
            with contextlib.suppress(psutil.NoSuchProcess):
                item.resume()
        return True

    def _lock_database(self) -> bool:
        """For longer than a lease, in which no worker can be heard."""
        seconds = self.generator.uniform(11, 16)
        if self.stack.postgres:
            with psycopg.connect(self.stack.postgres.url) as server:
                server.execute("LOCK TABLE runs_run IN ACCESS EXCLUSIVE MODE")
                time.sleep(seconds)
        else:
            database = self.stack.directory / "data" / "db.sqlite3"
            with contextlib.closing(sqlite3.connect(database, timeout=120, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
                time.sleep(seconds)
        return True

    def _broker(self, database: int) -> "redis.Redis":
        return redis.Redis(port=self.stack.redis_port, db=database, socket_timeout=5)

    def _lose_messages(self) -> bool:
        return any([self._broker(database).delete(queue) for queue, database in QUEUES.items()])

    def _double_messages(self) -> bool:
        doubled = 0
        for queue, database in QUEUES.items():
            with self._broker(database) as broker:
                messages = broker.lrange(queue, 0, -1)
                doubled += len(messages)
                for message in messages:
                    broker.rpush(queue, message)
        return bool(doubled)

    def _fill_disk(self) -> bool:
        filler = fill(self.stack.directory)
        time.sleep(self.generator.uniform(1, 4))
        filler.unlink()
        return True

    def _crash_postgres(self) -> bool:
        assert self.stack.postgres is not None
        self.stack.postgres.stop()
        time.sleep(self.generator.uniform(0, 2))
        self.stack.postgres.start()
        return True
