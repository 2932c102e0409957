"""`workbench up` with real processes: it serves, restarts what is killed, and leaves nothing running."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for
from workbench.embedded import EmbeddedError, Workbench

UP = "from workbench.embedded import main; raise SystemExit(main(port=0))"


def answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(f"{url}/login/", timeout=60).status == 200)
    except OSError:
        return False


@pytest.fixture
def up(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[psutil.Process]]]:
    """The command when it serves, its URL, and every process it started."""
    environment = {**os.environ, "WORKBENCH_DATA": str(tmp_path / "var")}
    command = subprocess.Popen([sys.executable, "-c", UP], env=environment, stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    said: list[str] = []
    for line in command.stdout:
        said.append(line)
        if "Ctrl-C" in line:
            break
    text = "".join(said)
    address = re.search(r"serving on (http://\S+)", text)
    assert address, text
    assert re.search(r"email: +\S+@\S+\npassword: +\S+", text)
    yield command, address.group(1), psutil.Process(command.pid).children(recursive=True)
    command.kill()
    command.wait()


def test_it_serves_restarts_what_is_killed_and_stops_everything_on_sigterm(up) -> None:
    command, url, children = up
    assert answers(url)
    web = next(child for child in children if "gunicorn" in " ".join(child.cmdline()))
    gpu_worker = next(child for child in children if "workers.gpu" in child.cmdline())
    assert gpu_worker.create_time() < web.create_time(), "it imports torch while the database is migrated"
    web.kill()
    wait_for(lambda: not web.is_running(), 180, "the end of the web server")
    wait_for(lambda: answers(url), 180, "an answer")
    children = psutil.Process(command.pid).children(recursive=True)
    assert len(children) >= 4
    command.send_signal(signal.SIGTERM)
    assert command.wait(180) == 0
    wait_for(lambda: not any(child.is_running() for child in children), 180, "the end of all processes")


def test_a_taken_port_is_one_clear_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            EmbeddedError, match=rf"port {port} of 127\.0\.0\.1 is taken .*; choose another with --port"
        ):
            Workbench(data=tmp_path, port=port).start()


def test_data_in_use_is_one_clear_sentence(tmp_path: Path) -> None:
    first, second = Workbench(data=tmp_path, port=0), Workbench(data=tmp_path, port=0)
    first._lock_data()
    with pytest.raises(EmbeddedError, match=f"another workbench is running on {tmp_path}"):
        second.start()
    first.stop()
