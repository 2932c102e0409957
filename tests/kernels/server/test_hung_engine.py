"""An engine that hangs, as a GPU may: the server notices, says so, and starts it again."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kernels.server.conftest import engine_of, metric, ready, served, until

ASKED = {"model": "voice-agent", "prompt": "a", "max_tokens": 4, "ignore_eos": True}
SECONDS = 10


@pytest.mark.slow
def test_an_engine_that_hangs_is_started_again_and_one_that_waits_is_not(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output, served("--hang-seconds", str(SECONDS), output=output) as (api, server):
        time.sleep(1.5 * SECONDS)
        assert metric(api, "engine_restarts_total") == 0
        os.kill(engine_of(server), signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(api.post, "/v1/completions", json=ASKED)
            until(lambda: api.get("/health").status_code == 503)
        found = asked.result()
        assert found.status_code == 500
        assert f"no sign of life for {SECONDS} s" in found.json()["error"]["message"]
        assert metric(api, "engine_hangs_total") == 1
        until(lambda: ready(api))
        assert api.post("/v1/completions", json=ASKED).status_code == 200
    assert f"no sign of life for {SECONDS} s" in log.read_text()
    assert "exit code -9" in log.read_text()
