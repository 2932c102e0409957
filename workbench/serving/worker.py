"""gunicorn's worker class around waitress: `gunicorn --worker-class workbench.serving.worker.BufferingWorker`."""

import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gunicorn.workers.base import Worker
from waitress import wasyncore
from waitress.adjustments import Adjustments

from workbench.serving.lanes import Lanes
from workbench.serving.pace import PacedServer
from workers.shared.scratch import scratch

CONNECTIONS = 500
DESCRIPTORS = 4 * CONNECTIONS
"""A connection may need one for its socket, and two for bodies that lie in files."""
HEADER_BYTES = 32 * 2**10
IN_MEMORY_BYTES = 512 * 2**10
"""A request's body beyond this lies in a file without a name."""

SWITCH_SECONDS = 0.0005
"""How long a thread that computes keeps the interpreter from one that wants it back.

A thread gives it up at each query. With CPython's own 5 ms a request of six queries waited for tens of milliseconds
beside one that computes."""
PAGES_FOLDER = "WORKBENCH_SHARED_PAGES"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_kept = ExitStack()


class BufferingWorker(Worker):  # type: ignore[misc]
    """One loop receives requests and sends responses; a thread is taken for a whole request only.

    Settings of the site: WORKBENCH_DATA, where bodies lie until they are read, and MAX_REQUEST_BYTES. gunicorn's
    --threads, for each lane, and --graceful-timeout hold as well.
    """

    @classmethod
    def setup(cls) -> None:
        """Called in gunicorn's first process: make the folders that its processes share for pages and metrics."""
        folders = [PAGES_FOLDER, METRICS_FOLDER] if os.environ.get("METRICS_TOKEN") else [PAGES_FOLDER]
        for name in folders:
            if name not in os.environ:
                folder = scratch(runtime_folder() / f"workbench-{name.lower()}-{os.getuid()}")
                os.environ[name] = str(_kept.enter_context(folder))

    def run(self) -> None:
        """Serve until told to stop, or until gunicorn's arbiter is gone."""
        collect_less_garbage()
        sys.setswitchinterval(SWITCH_SECONDS)
        map_: dict[int, Any] = {}
        dispatcher = Lanes(self.cfg.threads)
        servers = self._servers(map_, dispatcher)
        while self.alive and self.ppid == os.getppid():
            self._turn(map_)
        for server in servers:
            server.accepting = False
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while time.monotonic() < deadline and any(_busy(server) for server in servers):
            self._turn(map_)
        dispatcher.shutdown(timeout=1)

    def _turn(self, map_: dict[int, Any]) -> None:
        self.notify()
        wasyncore.loop(timeout=0.5, use_poll=True, map=map_, count=1)

    def _servers(self, map_: dict[int, Any], dispatcher: Lanes) -> list[PacedServer]:
        from django.conf import settings

        tempfile.tempdir = str(_spool(settings.WORKBENCH_DATA))
        _allow_descriptors(DESCRIPTORS)
        adjustments = Adjustments(
            connection_limit=CONNECTIONS,
            cleanup_interval=1,
            recv_bytes=2**16,
            inbuf_overflow=IN_MEMORY_BYTES,
            max_request_header_size=HEADER_BYTES,
            max_request_body_size=settings.MAX_REQUEST_BYTES,
            clear_untrusted_proxy_headers=False,  # Django's settings say whether a proxy is believed
            ident=None,
            log_socket_errors=False,
            threads=self.cfg.threads,
        )
        site = headers_alone(self.wsgi)
        return [_server(site, listener.sock, map_, dispatcher, adjustments) for listener in self.sockets]


def runtime_folder() -> Path:
    """Where the processes of a server share files: in memory where the system has a place for that, else in the data.

    In memory, since a full disk must end no process that writes to a mapped file. No stage may write there; to
    /dev/shm it may. Django's settings are not read here: which ones a site has, its own module says later.
    """
    data = Path(os.environ.get("WORKBENCH_DATA", Path(__file__).resolve().parents[2] / "var"))
    folders = (Path(f"/run/user/{os.getuid()}"), Path("/run"))
    return next((folder for folder in folders if os.access(folder, os.W_OK)), data / "run")


def _server(
    application: Any, sock: Any, map_: dict[int, Any], dispatcher: Lanes, adjustments: Adjustments
) -> PacedServer:
    return PacedServer(
        application,
        map=map_,
        _sock=sock,
        dispatcher=dispatcher,
        adj=adjustments,
        sockinfo=(sock.family, sock.type, sock.proto, sock.getsockname()),
        bind_socket=False,
    )


def _busy(server: PacedServer) -> bool:
    """Whether a request is being worked on, or a response is on its way."""
    return any(channel.requests or channel.total_outbufs_len for channel in server.active_channels.values())


def _spool(data: Path) -> Path:
    folder = data / "spool"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def collect_less_garbage() -> None:
    """Leave what the site consists of out of every search for cyclic garbage."""
    gc.collect()
    gc.freeze()


def _allow_descriptors(descriptors: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
WITHOUT_LENGTH = ("1", "204", "304")
"""Statuses, by their beginnings, that never have a body."""


def headers_alone(application: Application) -> Application:
    """The WSGI application, whose answers to HEAD have no body, and the Content-Length of the one left out."""

    def answered(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "HEAD":
            return application(environ, start_response)
        begun: list[Any] = []
        body = application(environ, lambda *line: begun.extend(line[:2]))
        status, headers = begun
        try:
            known = any(name.lower() == "content-length" for name, _ in headers)
            if not known and not status.startswith(WITHOUT_LENGTH):
                headers = [*headers, ("Content-Length", str(sum(map(len, body))))]
        finally:
            getattr(body, "close", lambda: None)()
        start_response(status, headers)
        return []

    return answered
