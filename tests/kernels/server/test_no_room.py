"""Servers that lack files or memory: what cannot be started is tried again, and clients are told meanwhile."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import pytest

from kernels.server.processes import restarts
from kernels.server.processes.connections import MAX_CONNECTIONS_IN_FLIGHT, PAUSE_SECONDS
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.pipes import spawn
from kernels.server.spec import Spec
from tests.kernels.server.conftest import LONG, engine_of, metric, ready, served, spawned, until
from tests.kernels.server.engines import becomes, short_of_memory, without_files, without_files_itself

ASKED = {"model": "voice-agent", "prompt": "A list is", "max_tokens": 6, "temperature": 0}


def _connections_go_to_another(api: httpx.Client, server: subprocess.Popen[bytes], log: Path) -> None:
    """Those of a web server that may open no files or that is dead."""
    address = (api.base_url.host, api.base_url.port)
    first, second = spawned(server)[False]
    with without_files(first.pid):
        assert {httpx.get(f"{api.base_url}/livez", trust_env=False).status_code for _ in range(20)} == {200}
        refused = log.read_text().count("a connection was given back")
        assert refused >= 1
        with without_files(second.pid):
            held = [socket.create_connection(address, timeout=300) for _ in range(4)]
            for item in held:
                item.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            until(lambda: log.read_text().count("a connection was given back") >= refused + 3)
    assert [_whole(item)[:15] for item in held] == [b"HTTP/1.1 200 OK"] * 4
    second.suspend()
    time.sleep(PAUSE_SECONDS)
    held = [socket.create_connection(address, timeout=300) for _ in range(200)]
    for item in held:
        item.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    until(lambda: len(select.select(held, [], [], 0)[0]) == len(held) - MAX_CONNECTIONS_IN_FLIGHT)
    second.kill()
    assert {_whole(item)[:15] for item in held} == {b"HTTP/1.1 200 OK"}


def test_what_cannot_be_started_again_or_take_a_connection_is_tried_again(tmp_path: Path) -> None:
    """The engine behind two web servers, which the main process tells of it, and then each of these."""
    log = tmp_path / "log"
    with log.open("wb") as output, served("--web-processes", "2", output=output) as (api, server):
        before = api.post("/v1/completions", json=ASKED).json()["choices"]
        tokens, steps = metric(api, "generated_tokens_total"), metric(api, "steps_total")
        with without_files(server.pid):
            os.kill(engine_of(server), signal.SIGKILL)
            until(lambda: log.read_text().count("was not started") == 2)
            result = api.post("/v1/completions", json=ASKED)
            state = api.get("/health")
            lives = api.get("/livez").status_code
            counts = [metric(api, name) for name in ("engine_restarts_total", "generated_tokens_total", "steps_total")]
        text = "the engine has ended and is started again; the last try failed: [Errno 24] Too many open files"
        error = result.json()["error"]
        assert (result.status_code, result.headers["Retry-After"]) == (503, "1")
        assert (error["code"], error["message"]) == ("engine_not_ready", f"{text}; ask again in a moment")
        assert (state.status_code, state.text, lives) == (503, f"{text}\n", 200)
        assert counts == [0, tokens, steps]
        until(lambda: ready(api))
        assert metric(api, "engine_restarts_total") == 1
        assert api.post("/v1/completions", json=ASKED).json()["choices"] == before
        assert metric(api, "steps_total") > steps
        waits = [line.rpartition(" in ")[2] for line in log.read_text().splitlines() if "it is started again" in line]
        assert waits == ["1 s", "2 s", "4 s"]
        _connections_go_to_another(api, server, log)
        until(lambda: len(spawned(server)[False]) == 2)
        _a_second_signal_ends_all_at_once(api, server)


def _a_second_signal_ends_all_at_once(api: httpx.Client, server: subprocess.Popen[bytes]) -> None:
    with api.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as stream:
        lines = stream.iter_lines()
        next(lines)
        os.killpg(server.pid, signal.SIGINT)
        until(lambda: not ready(api))
        os.killpg(server.pid, signal.SIGINT)
        *_, last, done = (line.removeprefix("data: ") for line in lines if line)
    assert (json.loads(last)["error"]["message"], done) == ("the server is shutting down", "[DONE]")
    assert server.wait(120) == 0


def test_a_server_whose_engine_cannot_be_started_ends_at_a_signal(tmp_path: Path) -> None:
    """With the one web server that the main process is itself."""
    log = tmp_path / "log"
    with log.open("wb") as output, served(output=output) as (_, server), without_files(server.pid):
        os.kill(engine_of(server), signal.SIGKILL)
        until(lambda: "was not started" in log.read_text())
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    assert "Traceback" not in log.read_text()


def _whole(connection: socket.socket) -> bytes:
    """What comes until the other side closes the connection."""
    with connection:
        return b"".join(iter(partial(connection.recv, 4096), b""))


LACKS = {
    "files": (without_files_itself, "[Errno 24] Too many open"),
    "memory": (short_of_memory, "the memory does not hold the model and a server of this size, which --max-num-seqs"),
}


@pytest.mark.parametrize("lack", LACKS)
def test_what_an_engine_lacks_as_it_starts_again_ends_no_server(tmp_path: Path, lack: str) -> None:
    (tmp_path / "starts").write_text("")
    main, sentence = LACKS[lack]

    async def whole() -> None:
        own = EngineProcess(Spec(str(tmp_path / "starts")), main=main)
        own.start()
        await becomes(own, "ready")
        own.process.kill()
        await becomes(own, f"the engine has ended and is started again; the last try failed: {sentence}")
        await becomes(own, "ready")
        assert (own.state.restarts, own.state.declined) == (2, None)
        await own.stop()

    asyncio.run(whole())


def test_no_number_of_failures_ends_the_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of 2 to the power of their number was too large for a float after 1,024 of them."""
    monkeypatch.setattr(restarts, "RESTART_SECONDS", 1e-9)
    monkeypatch.setattr(restarts, "LONGEST_PAUSE", 1e-6)
    failed: list[str] = []

    def start() -> None:
        if len(failed) < 1100:
            raise MemoryError

    process, pipe = spawn(Connection.close, (), "ends at once")
    with pipe:
        asyncio.run(restarts.Restarts("it", start, failed.append).again(process, was_ready=True))
    assert (len(failed), process.exitcode, set(failed)) == (1100, 0, {"no memory is free"})
