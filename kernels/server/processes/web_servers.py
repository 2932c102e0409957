"""How many web servers an engine has, and the one that is part of the server's main process."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Protocol

from kernels.measure import nvml
from kernels.measure.cpu_threads import usable_cpus
from kernels.server.http.client import EngineClient
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.replicas import EngineReplicas
from kernels.server.processes.web_process import METRICS_FOLDER, WebSpec
from kernels.server.processes.web_processes import WebProcesses
from kernels.server.spec import Spec
from kernels.server.starting import settle

MIN_CPUS = 8
"""Several web servers are started on a machine with so many CPUs."""
MIN_RUNNING = 64
"""Several web servers are started for an engine that serves so many requests at once."""
SEVERAL = 4


def processes_for(spec: Spec, cpus: int, gpu: bool) -> int:
    """Web servers for `spec` on such a machine; 1: the main process is it. A model on a CPU needs the cores."""
    on_gpu = spec.device == "cuda" or (spec.device is None and gpu)
    several = on_gpu and cpus >= MIN_CPUS and spec.max_num_seqs >= MIN_RUNNING
    return spec.web_processes or (SEVERAL if several else 1)


def processes_here(spec: Spec) -> int:
    """The number of web servers on this machine."""
    return processes_for(spec, usable_cpus(), nvml.library() is not None)


class WebServers(Protocol):
    """One web server or several: they serve the connections that they are given."""

    @property
    def full(self) -> bool:
        """Whether they can take no connection now."""

    def take(self, connection: socket.socket) -> None:
        """Serves a connection, which does not block."""

    async def drain(self, seconds: float) -> None:
        """Ends once the open requests have ended. Those that go on for longer than this get an error."""

    def end_open(self) -> None:
        """Ends the open requests with an error, and soon the web servers."""


@asynccontextmanager
async def web_servers(engine: EngineProcess | EngineReplicas, web: WebSpec) -> AsyncIterator[WebServers]:
    """One engine's web servers, here or in processes. Raises ValueError where the tokenizer cannot be read."""
    count = processes_here(web.spec)
    if count > 1:
        from kernels.server.http import app  # noqa: F401  a package that is missing is named here, once

        web.text()
        settle()
        with closing(WebProcesses(engine, web, count)) as processes:
            processes.start()
            yield processes
        return
    os.environ.pop(METRICS_FOLDER, None)
    from kernels.server.http.web import WebServer

    engine.listener = client = EngineClient(engine.send, web.wait_seconds)
    client.state_changed(engine.state)
    async with WebServer(web.app(client), client) as server:
        settle()
        yield server
