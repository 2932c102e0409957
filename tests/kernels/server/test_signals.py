"""How a server ends by a signal: systemd and `timeout` send it to the whole process group, as Ctrl-C does."""

import json
import os
import signal
from pathlib import Path

from tests.kernels.server.conftest import LONG, served


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
