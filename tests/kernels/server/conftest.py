"""A server of the sample model in a process of its own, for the tests of a module."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import httpx
import psutil
import pytest

from kernels.load.server_process import reserve_port
from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "samples" / "voice-agent"
LONG = {"model": "voice-agent", "prompt": "a", "max_tokens": 100, "n": 100, "ignore_eos": True}
"""Many more answers than run at once."""


def until(condition: Callable[[], Any]) -> None:
    wait_for(condition, 300, "what the test waits for")


def ready(api: httpx.Client) -> bool:
    try:
        return api.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def metric(api: httpx.Client, name: str) -> float:
    result = re.search(rf"^serve_{name} (\S+)$", api.get("/metrics").text, re.MULTILINE)
    assert result, name
    return float(result[1])


def spawned(server: subprocess.Popen[bytes]) -> dict[bool, list[psutil.Process]]:
    """The processes that a server has spawned, by whether they have loaded torch, as its ready engine alone has."""
    result: dict[bool, list[psutil.Process]] = {True: [], False: []}
    for child in psutil.Process(server.pid).children():
        with suppress(psutil.NoSuchProcess, OSError):
            if "spawn_main" in " ".join(child.cmdline()):
                result["libtorch" in Path(f"/proc/{child.pid}/maps").read_text()].append(child)
    return result


def engine_of(server: subprocess.Popen[bytes]) -> int:
    """The process of a server's engine."""
    (result,) = spawned(server)[True]
    return result.pid


@contextmanager
def served(*options: str, output: IO[bytes] | None = None) -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    """A server of the sample model, which leads a process group of its own, and a client of it."""
    port = reserve_port()
    command = [sys.executable, "-m", "kernels", "serve", "--model", str(MODEL), "--device", "cpu", "--port", str(port)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "KERNELS_SERVE_API_KEY": "secret"}
    command += ["--max-num-seqs", "4", "--max-model-len", "128", *options]
    server = subprocess.Popen(command, env=environment, start_new_session=True, stderr=output)
    headers = {"Authorization": "Bearer secret"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=300, trust_env=False) as result:
        try:
            wait_for(lambda: ready(result), 300, "the server", processes={"the server": server})
            yield result, server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[httpx.Client, subprocess.Popen[bytes]]]:
    with served("--drain-seconds", "1") as (result, server):
        yield result, server
        with result.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            server.send_signal(signal.SIGTERM)
            *_, last, done = (line.removeprefix("data: ") for line in lines if line)
        assert (json.loads(last)["error"]["message"], done) == ("the server is shutting down", "[DONE]")
        assert server.wait(120) == 0


@pytest.fixture(scope="module")
def api(server: tuple[httpx.Client, subprocess.Popen[bytes]]) -> httpx.Client:
    return server[0]
