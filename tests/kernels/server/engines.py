"""Engines that stand in for the real one. Their processes import this module, which imports no torch."""

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from kernels.server.messages import Ready, Starting, Stop
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.lifecycle import live
from kernels.server.spec import Spec
from kernels.server.starting import Phases


def engine(spec: Spec, connection: Connection) -> None:
    """An engine that serves nothing. It goes on with its start when it is sent anything."""
    phases = Phases(lambda name: connection.send(Starting(name)))
    with phases.phase("weights"):
        connection.recv()
    connection.send(Ready(8, 8, spec.model, seconds=phases.seconds, graphs=3))
    while not isinstance(connection.recv(), Stop):
        pass


def short_of_memory(spec: Spec, connection: Connection) -> None:
    """An engine that lacks memory at its second start. `spec.model` is a file that has a letter for each start."""

    def lacking(file: Path) -> None:
        raise MemoryError("KV pages of 2 TiB do not fit")

    _fails_once(lacking, spec, connection)


def without_files_itself(spec: Spec, connection: Connection) -> None:
    """An engine that may open no file at its second start. `spec.model` is a file that has a letter for each start."""

    def lacking(file: Path) -> None:
        with without_files(os.getpid()):
            file.read_text()

    _fails_once(lacking, spec, connection)


def _fails_once(fail: Callable[[Path], None], spec: Spec, connection: Connection) -> None:
    file = Path(spec.model)
    file.write_text(starts := file.read_text() + "x")

    def build(phases: Phases) -> tuple[None, Ready]:
        if len(starts) == 2:
            fail(file)
        return None, Ready(8, 8, spec.model)

    def serve(engine: None, connection: Connection) -> None:
        while not isinstance(connection.recv(), Stop):
            pass

    live(build, serve, connection)


@contextmanager
def without_files(pid: int) -> Iterator[None]:
    """Within it the process can open no file; those that it has stay open."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


async def becomes(own: EngineProcess, said: str) -> None:
    async with asyncio.timeout(300):
        while not own.state.status_line.startswith(said):
            await asyncio.sleep(0.01)
