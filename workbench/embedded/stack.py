"""Redis, web and workers as child processes of this one, started in order and watched."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from celery import Celery

from workbench.embedded.broker import RedisURLs, redis_service
from workbench.embedded.devices import Device, find_devices
from workbench.embedded.process import EmbeddedError, Service, wait_until
from workbench.storage.disk import SCARCE_BYTES, free_bytes
from workbench.storage.secret_files import kept_secret, own_folder

ROOT = Path(__file__).resolve().parent.parent.parent
RESTARTS_PER_MINUTE = 5
START_SECONDS = 300
"""For each process, on a machine that does other things as well; one that ends while starting is told at once."""
WEB_ONLY = ("SECRET_KEY", "DATABASE_URL", "GPU_REDIS_URL", "CACHE_URL")


class Workbench:
    """The running product: `with Workbench() as workbench: workbench.url`.

    data: where the database, files and logs lie (WORKBENCH_DATA, or `var/`). port: 0 takes a free one.
    devices: one GPU worker each; by default the GPUs of this machine, or its CPU. login: the arguments of
    `manage.py create_login`, whose output is then `login`; None makes no login.
    Raises EmbeddedError when the port or the data is in use, or a service does not come up.
    """

    def __init__(
        self,
        data: Path | None = None,
        port: int = 8000,
        devices: list[Device] | None = None,
        env: dict[str, str] | None = None,
        login: Sequence[str] | None = None,
    ) -> None:
        self.data = (data or Path(os.environ.get("WORKBENCH_DATA") or ROOT / "var")).resolve()
        self.logs = self.data / "log"
        self.devices = find_devices() if devices is None else devices
        self.port = port
        self.login = ""
        self.services: list[Service] = []
        self.workers: list[Service] = []
        self._extra_env = env or {}
        self._login_arguments = login
        self._lock: IO[str] | None = None
        self._listeners: list[socket.socket] = []
        self._restarts: deque[float] = deque(maxlen=RESTARTS_PER_MINUTE)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def worker_api_url(self) -> str:
        """Where the workers call; a port of its own, so that no visitor holds them up."""
        return f"http://127.0.0.1:{self.worker_api_port}"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.stop()

    def start(self) -> None:
        """Start everything; return when the web server answers."""
        own_folder(self.data)
        self._lock_data()
        self.port = self._listen(self.port)
        self.worker_api_port = self._listen(0)
        self._redis = self._start_redis()
        self.env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "workbench.settings",
            "PYTHONUNBUFFERED": "1",
            "CELERY_SKIP_CHECKS": "1",  # migrating has run Django's
            "WORKBENCH_DATA": str(self.data),
            "PUBLIC_URL": os.environ.get("PUBLIC_URL", self.url),
            "WORKER_API_URL": self.worker_api_url,
            "WORKER_TOKEN": kept_secret(self.data / "worker_token"),
            "REDIS_URL": self._redis.ledger,
            "GPU_REDIS_URL": self._redis.gpu_sender,
            "CACHE_URL": self._redis.cache,
            **self._extra_env,
        }
        gpu_workers = [self._gpu_worker(index, device) for index, device in enumerate(self.devices)]
        self.services += gpu_workers
        self.workers += gpu_workers
        for worker in gpu_workers:  # they know no database, and import torch while it is migrated
            worker.start()
        if self._login_arguments is None:
            self.manage("migrate", "--noinput", "--verbosity", "0")
        else:  # one process for both: Django's imports and checks take longer than either
            self.login = self.manage("create_login", "--migrate", *self._login_arguments)
        # The schedule is kept in memory: one in a file ends when the disk is full.
        beat = ("--beat", "--scheduler", "celery.beat:Scheduler")
        # Uploads have a worker of their own: their checks take long, and no run waits for them.
        ledger_workers = [
            self._worker("workbench", "ledger,notices", "ledger", self.env, *beat),
            self._worker("workbench", "intake", "intake", self.env),
        ]
        web = self._web("web", "workbench.wsgi", 0)
        worker_api = self._web("worker-api", "workbench.worker_site.wsgi", 1)
        self.workers += ledger_workers
        others = [web, worker_api, *ledger_workers]
        self.services[1:1] = others  # behind Redis: the workers of GPUs are stopped first
        for service in others:
            service.start()
        wait_until(lambda: _answers(f"{self.url}/healthz"), [web], START_SECONDS, "the web server")
        wait_until(lambda: _answers(f"{self.worker_api_url}/healthz"), [worker_api], START_SECONDS, "the worker API")
        for url, workers in ((self._redis.ledger, ledger_workers), (self._redis.gpu, gpu_workers)):
            with Celery(broker=url) as broker:
                timeouts = chain((0.5, 1.0), repeat(3.0))
                wait_until(partial(_answer, broker, workers, timeouts), workers, START_SECONDS, "a worker")

    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it prints. Raises EmbeddedError when it fails."""
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EmbeddedError(f"{arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def watch(self, stopping: threading.Event) -> None:
        """Restart services that end, until `stopping` is set. Raises EmbeddedError when one ends too often."""
        while not stopping.wait(1):
            for service in self.services:
                if service.exit_status is not None:
                    self._restart(service)

    def stop(self) -> None:
        """Stop everything, workers first, all of them at once, Redis last; harmless when nothing runs."""
        for worker in self.workers:
            worker.terminate()
        for service in reversed(self.services):
            service.stop()
        self.services.clear()
        self.workers.clear()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        if self._lock:
            self._lock.close()

    def _restart(self, service: Service) -> None:
        now = time.monotonic()
        if len(self._restarts) == RESTARTS_PER_MINUTE and now - self._restarts[0] < 60:
            raise EmbeddedError(
                f"{service.name} ended again (status {service.exit_status}), the {RESTARTS_PER_MINUTE + 1}th restart "
                f"within a minute; the end of {service.log}:\n{service.last_words()}"
            )
        if free_bytes(self.data) >= SCARCE_BYTES:  # a full disk is no reason to give up: somebody may delete something
            self._restarts.append(now)
        service.stop()
        service.start()

    def _lock_data(self) -> None:
        self._lock = (self.data / "lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EmbeddedError(
                f"another workbench is running on {self.data}; set WORKBENCH_DATA for a second one"
            ) from error

    def _listen(self, port: int) -> int:
        """Listen on the port, or for 0 on a free one; its number. The servers inherit the socket."""
        listener = self._bind(port)
        listener.listen(128)
        return int(listener.getsockname()[1])

    def _bind(self, port: int) -> socket.socket:
        """A socket on the port, or for 0 on a free one, until everything is stopped."""
        bound = socket.socket()
        self._listeners.append(bound)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", port))
        except OSError as error:
            raise EmbeddedError(
                f"port {port} of 127.0.0.1 is taken ({error.strerror}); choose another with --port"
            ) from error
        return bound

    def _start_redis(self) -> RedisURLs:
        port = self._bind(0).getsockname()[1]  # nobody else is given it, also while Redis is started again
        service, urls = redis_service(self.data, self.logs / "redis.log", port)
        self.services.append(service)
        service.start()

        def listens() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=10).close()
                return True
            return False

        wait_until(listens, [service], START_SECONDS, "Redis")
        return urls

    def _web(self, name: str, module: str, listener: int) -> Service:
        descriptor = self._listeners[listener].fileno()
        command = [sys.executable, "-m", "gunicorn", module, "--bind", f"fd://{descriptor}", "--no-control-socket"]
        command += ["--worker-class", "workbench.serving.worker.BufferingWorker", "--threads", "8"]
        command += ["--timeout", "120", "--graceful-timeout", "3"]
        return Service(
            f"the {name} server",
            command,
            self.logs / f"{name}.log",
            self.env,
            pass_fds=[descriptor],
            orphan_signal=signal.SIGQUIT,
        )

    def _gpu_worker(self, index: int, device: Device) -> Service:
        """Without the web's secrets, and with one GPU to see."""
        env = {name: value for name, value in self.env.items() if name not in WEB_ONLY}
        env["REDIS_URL"] = self._redis.gpu
        if device.visible:
            env["CUDA_VISIBLE_DEVICES"] = device.visible
        return self._worker("workers.gpu", f"gpu.{device.gpu_class}", f"gpu-{device.gpu_class}-{index}", env)

    def _worker(self, module: str, queue: str, name: str, env: dict[str, str], *more: str) -> Service:
        command = [sys.executable, "-m", "celery", "-A", module, "worker", "-Q", queue, "-c", "1", "-n", f"{name}@%h"]
        command += ["--loglevel", "INFO", "--without-mingle", "--without-gossip", *more]
        return Service(f"the {name} worker", command, self.logs / f"{name}.log", env, orphan_signal=signal.SIGKILL)


def _answer(broker: Celery, workers: list[Service], timeouts: Iterator[float]) -> bool:
    """Whether all of a broker's workers answer. One that comes up later has missed the question, so it is asked soon
    again; a slow one gets more seconds then.
    """
    return len(broker.control.ping(timeout=next(timeouts), limit=len(workers))) == len(workers)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


def main(port: int = 8000) -> int:
    """Serve on 127.0.0.1 until Ctrl-C or SIGTERM; the exit status."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    try:
        print("starting Redis, web and workers …", flush=True)
        with Workbench(port=port, login=()) as workbench:
            print(workbench.login.strip())
            devices = ", ".join(device.gpu_class for device in workbench.devices)
            print(f"serving on {workbench.url}  ·  workers for: {devices}  ·  logs in {workbench.logs}")
            print("Ctrl-C stops everything.", flush=True)
            workbench.watch(stopping)
            print("\nstopping …", flush=True)
    except EmbeddedError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    return 0
