"""Several processes that speak HTTP for one engine: one service to its clients, and none stalls or ends the others."""

import asyncio
import json
import os
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import psutil
import pytest

from kernels.server.messages import AddRequest, Ready, Stop
from kernels.server.processes.engine_process import EngineProcess
from kernels.server.processes.pipes import ignore_signals
from kernels.server.processes.web_process import WebSpec
from kernels.server.processes.web_processes import WebProcesses
from kernels.server.processes.web_servers import processes_for, web_servers
from kernels.server.spec import Spec
from tests.kernels.server.conftest import LONG, engine_of, metric, ready, served, spawned, until
from tests.waiting import alive

ASKED = {"model": "voice-agent", "prompt": "A list is", "max_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    log = tmp_path_factory.mktemp("web") / "log"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(log.parent))
        with log.open("wb") as output, served("--web-processes", "2", output=output) as (api, server):
            yield api, server, log


def asked_anew(api: httpx.Client, path: str = "/v1/completions", **kwargs):
    """An answer through a connection of its own. Without `verify=False` each reads the system's certificates, 17 ms."""
    common = {"timeout": 300, "trust_env": False, "verify": False}
    with httpx.Client(base_url=api.base_url, headers=api.headers, **common) as own:
        return own.post(path, json=ASKED | kwargs) if path.startswith("/v1") else own.get(path)


def test_each_gets_its_turn_and_all_say_and_count_the_same(both) -> None:
    api, *_ = both
    before = metric(api, "generated_tokens_total")
    with ThreadPoolExecutor(8) as pool:
        answers = [item.result() for item in [pool.submit(asked_anew, api) for _ in range(40)]]
    assert Counter(answer.status_code for answer in answers) == {200: 40}
    assert len({answer.json()["choices"][0]["text"] for answer in answers}) == 1
    told = {metric(api, "generated_tokens_total") for _ in range(6)}
    assert told == {before + 240}
    assert len({asked_anew(api, "/metrics").text.count("serve_kv_pages") for _ in range(4)}) == 1
    assert {asked_anew(api, "/health").text for _ in range(4)} == {"ready\n"}
    bare = {httpx.post(f"{api.base_url}/v1/completions", json=ASKED, trust_env=False).status_code for _ in range(4)}
    assert bare == {401}


def test_connections_are_dealt_out_evenly(both) -> None:
    api, server, _ = both
    host, port = api.base_url.host, api.base_url.port
    held = [socket.create_connection((host, port)) for _ in range(20)]
    try:
        for item in held:
            item.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            assert item.recv(100).startswith(b"HTTP/1.1 200")
        kept = [
            sum(net_connection.laddr.port == port for net_connection in web.net_connections())
            for web in spawned(server)[False]
        ]
        assert len(kept) == 2
        assert min(kept) >= 10
    finally:
        for item in held:
            item.close()


def test_a_dead_engine_ends_the_requests_of_all(both) -> None:
    api, server, log = both
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(asked_anew, api, max_tokens=100, n=100, ignore_eos=True) for _ in range(4)]
        until(lambda: metric(api, "waiting_requests") > 300)
        os.kill(engine_of(server), signal.SIGKILL)
        result = Counter(item.result().status_code for item in waiting)
    assert result == {500: 4}
    until(lambda: all(ready(api) for _ in range(4)))
    assert {metric(api, "engine_restarts_total") for _ in range(4)} == {1}
    assert asked_anew(api).status_code == 200
    assert "has ended (exit code -9)" in log.read_text()


def test_a_dead_web_server_takes_only_its_own_requests_with_it(both) -> None:
    api, server, log = both
    first, second = spawned(server)[False]
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(asked_anew, api, max_tokens=60, n=20, ignore_eos=True) for _ in range(4)]
        until(lambda: metric(api, "waiting_requests") > 60)
        second.kill()
        ended = []
        for item in waiting:
            try:
                ended.append(item.result().status_code)
            except httpx.TransportError:
                ended.append(0)
    assert Counter(ended) == {200: 2, 0: 2}
    until(lambda: len(spawned(server)[False]) == 2)
    with ThreadPoolExecutor(4) as pool:
        answers = [item.result() for item in [pool.submit(asked_anew, api) for _ in range(4)]]
    assert {answer.status_code for answer in answers} == {200}
    until(lambda: (metric(api, "running_requests"), metric(api, "waiting_requests")) == (0, 0))
    assert "it is started again in 1 s" in log.read_text()
    assert first.is_running()


def test_nothing_outlives_the_sudden_death_of_the_main_process(both) -> None:
    """The last one that asks this server."""
    _, server, log = both
    assert list(log.parent.glob("kernels-serve-metrics-*"))
    children = psutil.Process(server.pid).children(recursive=True)
    assert len(children) >= 3
    server.kill()
    _, living = psutil.wait_procs(children, 60)
    assert living == []
    assert not list(log.parent.glob("kernels-serve-metrics-*"))
    assert "Traceback" not in log.read_text()


def test_a_signal_lets_all_of_them_drain(tmp_path: Path) -> None:
    """With pages in fp8, also from the prefix cache. A second signal ends them at once: test_no_room.py."""
    log = tmp_path / "log"
    options = ("--web-processes", "2", "--kv-cache-dtype", "fp8")
    with log.open("wb") as output, served(*options, output=output) as (api, server):
        body = ASKED | {"prompt": [*range(5, 25)], "ignore_eos": True, "return_token_ids": True}
        ids = api.post("/v1/completions", json=body).json()["choices"][0]["token_ids"]
        again = api.post("/v1/completions", json=body | {"prompt": body["prompt"] + ids[:-1], "max_tokens": 1}).json()
        assert again["choices"][0]["token_ids"] == ids[-1:]
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 16
        assert 'serve_kv_cache_info{dtype="fp8"} 1.0' in api.get("/metrics").text
        with api.stream("POST", "/v1/completions", json=LONG | {"n": 8, "stream": True}) as stream:
            lines = stream.iter_lines()
            told = [next(lines)]
            os.killpg(server.pid, signal.SIGINT)
            told += [line for line in lines if line]
        events = [json.loads(line.removeprefix("data: ")) for line in told[:-1] if line]
        assert told[-1] == "data: [DONE]"
        assert server.wait(120) == 0
    assert sum(bool(item["finish_reason"]) for event in events for item in event["choices"]) == 8
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["start", "serving"]


def silent(spec: Spec, connection: Connection) -> None:
    """An engine that answers nobody, and writes the names of its requests into the file `spec.plan`."""
    ignore_signals()
    connection.send(Ready(64, 64, "none"))
    while not isinstance(message := connection.recv(), Stop):
        if isinstance(message, AddRequest):
            with Path(spec.plan).open("a") as names:
                names.write(f"{message.name}\n")


def test_no_web_server_has_a_name_of_one_before_it(tmp_path: Path) -> None:
    """The engine may still tell of a dead one's requests while a new one has its first."""
    body = json.dumps({"model": "m", "prompt": [1]})
    request = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    names = tmp_path / "names"
    names.touch()
    held = []

    async def asked(servers: WebProcesses, count: int) -> None:
        """Sends requests until the engine has so many names; a server that is not up yet may refuse some."""
        async with asyncio.timeout(240):
            while len(names.read_text().splitlines()) < count:
                for _ in range(2):
                    ours, theirs = socket.socketpair()
                    theirs.setblocking(False)
                    servers.take(theirs)
                    ours.sendall(request)
                    held.append(ours)
                with suppress(TimeoutError):
                    async with asyncio.timeout(5):
                        while len(names.read_text().splitlines()) < count:
                            await asyncio.sleep(0.05)

    async def whole() -> None:
        spec = Spec("tiny-llama", str(names), web_processes=2)
        own = EngineProcess(spec, silent)
        own.start()
        async with web_servers(own, WebSpec(spec, "m")) as servers:
            await own.changed.wait()
            await asked(servers, 2)
            for process in list(servers._processes.values()):
                process.process.kill()
            async with asyncio.timeout(120):
                while servers._processes:
                    await asyncio.sleep(0.05)
            await asked(servers, 4)
            await servers.drain(0)
        await own.stop()

    asyncio.run(whole())
    lines = names.read_text().splitlines()
    assert len(set(lines)) == len(lines) >= 4


@pytest.mark.slow
def test_what_hangs_is_started_again_and_holds_up_no_end(tmp_path: Path) -> None:
    """The engine, as a GPU may make it hang, and a web server; none that merely waits."""
    log, seconds = tmp_path / "log", 10
    options = ("--web-processes", "2", "--hang-seconds", str(seconds), "--drain-seconds", "0")
    with log.open("wb") as output, served(*options, output=output) as (api, server):
        time.sleep(1.5 * seconds)
        assert metric(api, "engine_restarts_total") == 0
        os.kill(engine_of(server), signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            response = pool.submit(asked_anew, api)
            until(lambda: asked_anew(api, "/health").status_code == 503)
        assert response.result().status_code == 500
        assert f"no sign of life for {seconds} s" in response.result().json()["error"]["message"]
        assert metric(api, "engine_hangs_total") == 1
        until(lambda: ready(api))
        first, second = spawned(server)[False]
        first.suspend()
        until(lambda: not alive(first.pid))
        until(lambda: len(spawned(server)[False]) == 2)
        with ThreadPoolExecutor(4) as pool:
            assert {item.status_code for item in pool.map(lambda _: asked_anew(api), range(4))} == {200}
        second.suspend()
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    text = log.read_text()
    assert f"no sign of life for {seconds} s" in text
    assert "exit code -9" in text
    assert f"gave no sign of life for {seconds} s; its process is killed" in text
    assert "has not ended in time; its process is killed" in text


@pytest.mark.parametrize(
    ("cpus", "gpu", "asked", "count"),
    [
        (2, True, {"max_num_seqs": 256}, 1), (16, True, {"max_num_seqs": 32}, 1), (16, True, {"max_num_seqs": 64}, 4),
        (16, False, {"max_num_seqs": 64}, 1), (8, False, {"max_num_seqs": 256, "device": "cuda"}, 4),
        (64, True, {"max_num_seqs": 256, "device": "cpu"}, 1),
        (2, False, {"max_num_seqs": 8, "device": "cpu", "web_processes": 3}, 3),
    ],
)  # fmt: skip
def test_several_serve_many_requests_to_a_gpu_on_many_cpus(cpus: int, gpu: bool, asked: dict, count: int) -> None:
    assert processes_for(Spec("m", **asked), cpus, gpu) == count
