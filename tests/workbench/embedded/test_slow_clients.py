"""Clients that send half a header, or a body in drips, hold up neither pages nor workers.

Real sockets, real processes.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest

from tests.sample_results import workload
from tests.slow_clients import half_headers
from tests.waiting import wait_for
from tests.workers.pipeline.stack import ROOT
from workbench.embedded import Workbench
from workbench.embedded.devices import Device
from workers.documents.worker_api import CLAIM_HEADER

UPLOADS = 20
UPLOAD_BYTES = 2**22
DRIP_BYTES = 2**15
DRIP_SECONDS = 0.1
HELD_UP_SECONDS = 6.0
"""Who waits for a slow client waits longer: after two seconds an upload takes ten more, and half a header eight. A busy
machine holds up one page, a slow client all of them.
"""


class Site:
    """The embedded workbench, a member, a run whose baseline waits for `go`, and one that waits for a worker."""

    def __init__(self, workbench: Workbench, told: Path) -> None:
        seed = [sys.executable, str(ROOT / "tests/workers/pipeline/seed.py")]
        made = json.loads(subprocess.check_output(seed, cwd=ROOT, env=workbench.env, text=True).splitlines()[-1])
        self.workbench, self.told = workbench, told
        headers = {"Authorization": f"Bearer {made['token']}"}
        self.api = httpx.Client(base_url=f"{workbench.url}/api/v1", headers=headers, timeout=120)
        self.run_id = self._start(made["digest"])
        wait_for(self.at_work, 300, "the stage's start")
        self.waiting = {"run_id": self._start(made["digest"]), "stage": "admit", "attempt": 1}
        headers = {"Authorization": f"Bearer {workbench.env['WORKER_TOKEN']}"}
        self.worker = {"base_url": f"{workbench.worker_api_url}/api/v1/worker", "headers": headers, "timeout": 120}

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
        assert httpx.get(f"{self.workbench.url}/login/", timeout=120).status_code == 200

    def claim(self) -> None:
        """Take the run that waits behind the first one, as a second worker."""
        with httpx.Client(**self.worker) as worker:
            answer = worker.post("/claim", json={**self.waiting, "worker": "test"})
        assert answer.status_code == 200, answer.text
        self.worker["headers"][CLAIM_HEADER] = answer.headers[CLAIM_HEADER]

    def heartbeat(self) -> None:
        """Say that the second worker is at it, on a new connection."""
        with httpx.Client(**self.worker) as worker:
            assert worker.post("/heartbeat", json=self.waiting).json() == {"cancel": False}

    def upload_slowly(self) -> httpx.Response:
        """Send a file in drips, which takes about twelve seconds."""
        announced = [{"path": "config.json", "size": 2}, {"path": "model.safetensors", "size": UPLOAD_BYTES}]
        upload = self.post("/uploads", {"name": "slow", "files": announced})
        headers = {"Upload-Offset": "0", "Content-Length": str(UPLOAD_BYTES)}
        return self.api.patch(f"/uploads/{upload['id']}/files/1", content=_drips(), headers=headers)


def _drips() -> Iterator[bytes]:
    for _ in range(UPLOAD_BYTES // DRIP_BYTES):
        yield bytes(DRIP_BYTES)
        time.sleep(DRIP_SECONDS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    told = tmp_path_factory.mktemp("told")
    env = {
        "WORKBENCH_STAGE_PACKAGE": "tests.workers.tiny_stages",
        "WORKBENCH_STAGE_TEST_DIR": str(told),
        "HEARTBEAT_SECONDS": "1",
        "LEASE_SECONDS": "10",
        "ORGANISATION_OPEN_UPLOADS": str(UPLOADS),
        "SWEEP_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
    }
    with Workbench(tmp_path_factory.mktemp("var"), port=0, devices=[Device("cpu")], env=env) as workbench:
        yield Site(workbench, told)


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_slow_clients_and_uploads_leave_pages_and_heartbeats_alone(site: Site) -> None:
    pages, heartbeats = [], []
    ports = _port(site.workbench.url), _port(site.workbench.worker_api_url)
    with half_headers(*ports) as dropped, ThreadPoolExecutor(UPLOADS) as pool:
        uploads = [pool.submit(site.upload_slowly) for _ in range(UPLOADS)]
        time.sleep(2)
        site.claim()
        while not all(upload.done() for upload in uploads):
            for act, seconds in ((site.page, pages), (site.heartbeat, heartbeats)):
                began = time.monotonic()
                act()
                seconds.append(time.monotonic() - began)
            time.sleep(0.2)
        wait_for(lambda: set(dropped) == set(ports), 300, "the end of slow clients on both ports")
    assert [upload.result().status_code for upload in uploads] == [200] * UPLOADS
    assert median(pages) < HELD_UP_SECONDS
    assert median(heartbeats) < HELD_UP_SECONDS
    (site.told / f"{site.run_id}.go").touch()
    wait_for(lambda: site.api.get(f"/runs/{site.run_id}").json()["state"] == "done", 300, "the run's end")
    assert "retried" not in {event["kind"] for event in site.events()}
