"""How a server ends by a signal: systemd and `timeout` send it to the whole process group, as Ctrl-C does."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kernels.server.conftest import LONG, metric, ready, served, until


def test_a_signal_to_the_whole_group_lets_open_requests_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output, served(output=output) as (api, server):
        with api.stream("POST", "/v1/completions", json=LONG | {"n": 8, "stream": True}) as stream:
            lines = stream.iter_lines()
            told = [next(lines)]
            os.killpg(server.pid, signal.SIGTERM)
            told += [line for line in lines if line]
        events = [json.loads(line.removeprefix("data: ")) for line in told[:-1] if line]
        assert told[-1] == "data: [DONE]"
        reasons = [
            choice["finish_reason"] for event in events for choice in event["choices"] if choice["finish_reason"]
        ]
        assert reasons == ["length"] * 8
        assert server.wait(120) == 0
    assert "ended" not in log.read_text()
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["start", "serving"]


def test_a_second_ctrl_c_tells_open_requests_that_the_server_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output, ThreadPoolExecutor(1) as pool, served(output=output) as (api, server):
        with api.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            whole = pool.submit(api.post, "/v1/completions", json=LONG)
            until(lambda: metric(api, "waiting_requests") > LONG["n"])
            os.killpg(server.pid, signal.SIGINT)
            until(lambda: not ready(api))
            os.killpg(server.pid, signal.SIGINT)
            *_, last, done = (line.removeprefix("data: ") for line in lines if line)
        assert (json.loads(last)["error"]["message"], done) == ("the server is shutting down", "[DONE]")
        assert whole.result().status_code == 503
        assert whole.result().json()["error"]["message"] == "the server is shutting down"
        assert server.wait(120) == 0
    assert "Traceback" not in log.read_text()
