"""`workbench up` with real processes: slow clients and checks hold up nobody, what is killed starts again, and nothing
is left.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
import pytest

from tests.migrated import copy_database
from tests.sample_results import workload
from tests.slow_clients import half_headers
from tests.waiting import wait_for
from tests.workbench.intake.conftest import CONFIG, sha
from tests.workers.pipeline.stack import ROOT
from workbench.embedded import EmbeddedError, Workbench
from workbench.intake import check_files
from workers.documents.worker_api import CLAIM_HEADER

UP = "from workbench.embedded import main; raise SystemExit(main(port=0))"
UPLOADS = 20
MIB = 2**20
CHUNK = 16 * MIB
ROWS = 100_000
UPLOAD_BYTES = 2**22
DRIP_BYTES = 2**17
DRIP_SECONDS = 0.4
HELD_UP_SECONDS = 6.0
"""Who waits for a slow client waits longer: ten seconds for an upload, eight for half a header."""


class Site:
    """The running command, a member, a run whose baseline waits for `go`, and one that waits for a worker."""

    def __init__(self, command: subprocess.Popen[str], url: str, told: Path) -> None:
        self.command, self.url, self.told = command, url, told
        self.web, env = self.process("workbench.wsgi"), self.process("workbench.wsgi").environ()
        seed = [sys.executable, str(ROOT / "tests/workers/pipeline/seed.py")]
        ids = json.loads(subprocess.check_output(seed, cwd=ROOT, env=env, text=True).splitlines()[-1])
        headers = {"Authorization": f"Bearer {ids['token']}"}
        self.api = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=600)
        self.run_id = self._start(ids["digest"])
        wait_for(self.at_work, 300, "the stage's start")
        self.waiting = {"run_id": self._start(ids["digest"]), "stage": "admit", "attempt": 1}
        headers = {"Authorization": f"Bearer {env['WORKER_TOKEN']}"}
        self.worker = {"base_url": f"{env['WORKER_API_URL']}/api/v1/worker", "headers": headers, "verify": False}
        self.ports = [int(value.rpartition(":")[2]) for value in (url, env["WORKER_API_URL"])]

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.command.pid).children(recursive=True)

    def process(self, module: str) -> psutil.Process:
        """The first process that runs this module."""
        return next(item for item in self.processes() if module in item.cmdline())

    def _start(self, digest: str) -> str:
        document = workload().model_copy(update={"name": "pause baseline", "model": digest})
        handed_in = self.post("/workloads", document.model_dump(mode="json"))
        return str(self.post("/runs", {"workload": handed_in["id"]})["id"])

    def events(self) -> list[dict[str, str]]:
        """What the run has gone through."""
        return list(self.api.get(f"/runs/{self.run_id}/events", params={"limit": 1000}).json()["items"])

    def at_work(self) -> bool:
        """Whether the stage that pauses has told who it is."""
        return any('"attempt"' in event["message"] for event in self.events())

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def page(self) -> None:
        """Open a page on a new connection."""
        assert httpx.get(f"{self.url}/login/", timeout=120, verify=False).status_code == 200

    def answers(self) -> bool:
        try:
            self.page()
        except httpx.TransportError:
            return False
        return True

    def claim(self) -> None:
        """Take the run that waits behind the first one, as a second worker."""
        with httpx.Client(**self.worker, timeout=120) as worker:
            answer = worker.post("/claim", json={**self.waiting, "worker": "test"})
        assert answer.status_code == 200, answer.text
        self.worker["headers"][CLAIM_HEADER] = answer.headers[CLAIM_HEADER]

    def heartbeat(self) -> None:
        """Say that the second worker is at it, on a new connection."""
        with httpx.Client(**self.worker, timeout=120) as worker:
            assert worker.post("/heartbeat", json=self.waiting).json() == {"cancel": False}

    def upload_slowly(self) -> httpx.Response:
        """Send a file in drips, which takes about twelve seconds."""
        announced = [{"path": "config.json", "size": 2}, {"path": "model.safetensors", "size": UPLOAD_BYTES}]
        upload = self.post("/uploads", {"name": "slow", "files": announced})
        headers = {"Upload-Offset": "0", "Content-Length": str(UPLOAD_BYTES)}
        return self.api.patch(f"/uploads/{upload['id']}/files/1", content=_drips(), headers=headers)

    def checking(self) -> list[psutil.Process]:
        """The processes that read files at the moment."""
        reading = []
        for child in self.process("intake").children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                reading += [child] if check_files.__name__ in child.cmdline() else []
        return reading

    def send(self, files: dict[str, bytes], holds: str = "model") -> str:
        """The id of an upload that only needs to be finished."""
        listed = [{"path": path, "size": len(each), "sha256": sha(each)} for path, each in files.items()]
        upload = self.post("/uploads", {"holds": holds, "name": "m", "files": listed})["id"]
        for number, content in enumerate(files.values()):
            for offset in range(0, len(content), CHUNK):
                headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
                chunk = content[offset : offset + CHUNK]
                at = f"/uploads/{upload}/files/{number}"
                self.api.patch(at, content=chunk, headers=headers).raise_for_status()
        return str(upload)

    def finish(self, upload: str) -> None:
        while (answer := self.api.post(f"/uploads/{upload}/finish", json={"files": []})).status_code == 429:
            time.sleep(0.2)
        assert answer.status_code == 202, answer.text

    def state(self, upload: str) -> str:
        return str(self.api.get(f"/uploads/{upload}").json()["state"])

    def ended(self, upload: str) -> Any:
        """What came of it."""
        wait_for(lambda: self.state(upload) != "checking", 600, "the check")
        return self.api.get(f"/uploads/{upload}").json()


def _drips() -> Iterator[bytes]:
    for _ in range(UPLOAD_BYTES // DRIP_BYTES):
        yield bytes(DRIP_BYTES)
        time.sleep(DRIP_SECONDS)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The command when it serves."""
    told = tmp_path_factory.mktemp("told")
    copy_database(data := tmp_path_factory.mktemp("var"))
    env = {
        **os.environ,
        "WORKBENCH_DATA": str(data),
        "WORKBENCH_STAGE_PACKAGE": "tests.workers.tiny_stages",
        "WORKBENCH_STAGE_TEST_DIR": str(told),
        "HEARTBEAT_SECONDS": "1",
        "LEASE_SECONDS": "10",
        "ORGANISATION_OPEN_UPLOADS": str(2 * UPLOADS),
        "API_REQUESTS_PER_MINUTE": "9999",
        "SWEEP_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = subprocess.Popen([sys.executable, "-c", UP], env=env, stdout=subprocess.PIPE, text=True)
    try:
        text = ""
        while "Ctrl-C" not in text and (line := command.stdout.readline()):
            text += line
        address = re.search(r"serving on (http://\S+)", text)
        assert address, text
        assert re.search(r"email: +\S+@\S+\npassword: +\S+", text)
        yield Site(command, address[1], told)
    finally:
        command.kill()
        command.wait()


def test_slow_clients_and_uploads_leave_pages_and_heartbeats_alone(site):
    pages, heartbeats = [], []
    with half_headers(*site.ports) as dropped, ThreadPoolExecutor(UPLOADS) as pool:
        uploads = [pool.submit(site.upload_slowly) for _ in range(UPLOADS)]
        time.sleep(2)
        site.claim()
        while not all(upload.done() for upload in uploads):
            for act, seconds in ((site.page, pages), (site.heartbeat, heartbeats)):
                began = time.monotonic()
                act()
                seconds.append(time.monotonic() - began)
            time.sleep(0.2)
        wait_for(lambda: set(dropped) == set(site.ports), 300, "the end of slow clients on both ports")
    assert [upload.result().status_code for upload in uploads] == [200] * UPLOADS
    assert median(pages) < HELD_UP_SECONDS, "a busy machine holds up one page, a slow client all of them"
    assert median(heartbeats) < HELD_UP_SECONDS
    (site.told / f"{site.run_id}.go").touch()
    wait_for(lambda: site.api.get(f"/runs/{site.run_id}").json()["state"] == "done", 300, "the run's end")
    assert "retried" not in {event["kind"] for event in site.events()}


def _peak_mib(process: psutil.Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _recording(number: int) -> dict[str, bytes]:
    content = f"prompt_tokens,output_tokens\n{number + 1},1\n".encode() + b"100,64\n" * (ROWS - 1)
    return {"calls.csv": content}


def test_large_tokenizer_configs_at_once_cost_the_web_process_nothing(site):
    large = b'{"a": [' + b"{}," * (11 * MIB // 3) + b"{}]}"
    config = json.dumps(CONFIG).encode()
    uploads = [site.send({"config.json": config, "tokenizer_config.json": large + b" " * n}) for n in range(4)]
    serving = site.web.children()[0]
    before = _peak_mib(serving)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(site.finish, uploads))
    for upload in uploads:
        ending = site.ended(upload)
        assert ending["state"] == "refused"
        assert ending["files"] == []
        assert ending["problem"]["detail"].startswith("tokenizer_config.json: the file has 11,5")
    assert serving.is_running()
    assert _peak_mib(serving) - before < 50


def test_long_recordings_at_once_hold_up_no_page_and_are_checked_one_at_a_time(site):
    uploads = [site.send(_recording(number), "recording") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(site.finish, uploads))
    times, most, began = [], 0, time.monotonic()
    while sum(site.state(upload) == "finished" for upload in uploads) < 2:
        begun = time.monotonic()
        site.page()
        times.append(time.monotonic() - begun)
        most = max(most, len(site.checking()))
        time.sleep(0.1)
    assert most == 1
    assert max(times) < max(10, (time.monotonic() - began) / 3), "a page waited for a check"
    done = [upload for upload in uploads if site.state(upload) == "finished"]
    for upload in set(uploads) - set(done):
        site.api.delete(f"/uploads/{upload}").raise_for_status()
    assert site.ended(done[0])["recording"]["requests"] == ROWS


def test_a_check_whose_worker_was_killed_is_done_again(site):
    upload = site.send(_recording(9), "recording")
    site.finish(upload)
    child = wait_for(lambda: next(iter(site.checking()), None), 600, "the check")
    site.process("intake").kill()
    wait_for(lambda: not child.is_running(), 600, "the end of the child")
    assert site.state(upload) == "checking"
    assert site.ended(upload)["recording"]["requests"] == ROWS


def test_it_restarts_what_is_killed_and_stops_everything_on_sigterm(site):
    worker = site.process("workers.gpu")
    assert worker.create_time() < site.web.create_time(), "it imports torch while the database is migrated"
    site.web.kill()
    wait_for(lambda: not site.web.is_running(), 180, "the end of the web server")
    wait_for(site.answers, 180, "an answer")
    children = site.processes()
    assert len(children) >= 4
    site.command.send_signal(signal.SIGTERM)
    assert site.command.wait(180) == 0
    wait_for(lambda: not any(child.is_running() for child in children), 180, "the end of all processes")


def test_a_taken_port_and_data_in_use_are_one_clear_sentence(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EmbeddedError, match=rf"port {port} of 127\.0\.0\.1 is taken .*; choose another with"):
            Workbench(data=tmp_path, port=port).start()
    first, second = Workbench(data=tmp_path, port=0), Workbench(data=tmp_path, port=0)
    first._lock_data()
    with pytest.raises(EmbeddedError, match=f"another workbench is running on {tmp_path}"):
        second.start()
    first.stop()
