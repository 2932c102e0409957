"""The whole workbench on a disk that is full for a while, during which Redis is killed. Prints what became of it."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.migrated import copy_database
from tests.workbench.small_disk import fill
from workbench.embedded.process import EmbeddedError
from workbench.embedded.stack import RESTARTS_PER_MINUTE, Workbench

MIB = 2**20
UPLOAD = 20 * MIB
KILLS = RESTARTS_PER_MINUTE + 1
SWEPT = "Task workbench.runs.tasks.sweep_runs"
WORKLOAD = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 5}], "name": "n" * 120}


def wait_until(ready: Callable[[], bool], seconds: float) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.05)
    return ready()


class Member:
    """What a customer does: `api` sends a token, `pages` is logged in."""

    def __init__(self, workbench: Workbench) -> None:
        self.url = workbench.url
        self.login = json.loads(workbench.manage("create_login", "--token", "--json"))
        bearer = {"Authorization": f"Bearer {self.login['token']}"}
        self.api = httpx.Client(base_url=f"{self.url}/api/v1", headers=bearer, timeout=120)
        self.pages = httpx.Client(base_url=self.url, timeout=120)
        assert self.log_in(self.pages).status_code == 302

    def log_in(self, browser: httpx.Client) -> httpx.Response:
        """A login, which writes a session."""
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get("/login/").text)[0]
        form = {"username": self.login["email"], "password": self.login["password"], "csrfmiddlewaretoken": token}
        return browser.post("/login/", data=form)

    def new_session(self) -> httpx.Response:
        with httpx.Client(base_url=self.url, timeout=120) as stranger:
            return self.log_in(stranger)

    def announce(self, size: int) -> httpx.Response:
        files = [{"path": "config.json", "size": 2}, {"path": "model.safetensors", "size": size}]
        return self.api.post("/uploads", json={"name": "m", "files": files})

    def send(self, upload: str, size: int) -> httpx.Response:
        headers = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
        return self.api.patch(f"/uploads/{upload}/files/1", content=b"x" * size, headers=headers)


def said(response: httpx.Response) -> list[Any]:
    """Status and kind of an answer."""
    return [response.status_code, response.headers.get("content-type", "").partition(";")[0]]


def until_full(call: Callable[[], httpx.Response]) -> list[Any]:
    """The first answer that is no success: SQLite's log may hold some free pages still."""
    for _ in range(3000):
        response = call()
        if response.status_code >= 400:
            return said(response)
    return ["never full"]


def on_a_full_disk(folder: Path, member: Member) -> dict[str, Any]:
    """What is answered."""
    observed: dict[str, Any] = {}
    announced = [member.announce(UPLOAD) for _ in range(6)]
    observed["announced"] = [response.status_code for response in announced]
    uploads = [response.json()["id"] for response in announced if response.status_code == 201]
    observed["received"] = member.send(uploads[0], UPLOAD // 2).status_code
    fill(folder)
    observed["patch"] = said(member.send(uploads[1], UPLOAD // 2))
    observed["post"] = until_full(lambda: member.api.post("/workloads", json=WORKLOAD))
    observed["login"] = until_full(member.new_session)
    observed["announce"] = said(member.announce(1))
    observed["page"] = said(member.pages.get("/models/"))
    observed["read"] = said(member.api.get("/uploads"))
    fill(folder)
    observed["delete"] = [member.api.delete(f"/uploads/{upload}").status_code for upload in uploads]
    observed["left"] = len(member.api.get("/uploads").json()["items"])
    observed["freed"] = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize > UPLOAD
    return observed


def main(folder: Path) -> dict[str, Any]:
    gave_up: list[str] = []
    stopping = threading.Event()
    env = {"SWEEP_SECONDS": "2", "DISK_RESERVE_BYTES": str(8 * MIB), "API_REQUESTS_PER_MINUTE": "9999"}
    copy_database(folder)
    with Workbench(data=folder, port=0, devices=[], env=env) as workbench:

        def watch() -> None:
            try:
                workbench.watch(stopping)
            except EmbeddedError as error:
                gave_up.append(str(error))

        member = Member(workbench)
        result = on_a_full_disk(folder, member)
        filler = fill(folder)
        watching = threading.Thread(target=watch)
        watching.start()
        redis = next(service for service in workbench.services if service.name == "Redis")
        for _ in range(KILLS):
            wait_until(lambda: redis.exit_status is None, 120)
            os.kill(redis.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
            wait_until(lambda: redis.exit_status is not None, 120)
        result |= {"gave_up": gave_up, "login_page": said(httpx.get(f"{workbench.url}/login/", timeout=120))}
        filler.unlink()
        result["running"] = wait_until(lambda: all(service.exit_status is None for service in workbench.services), 180)
        log = folder / "log" / "ledger.log"
        swept = log.read_text().count(SWEPT)
        result["beat"] = wait_until(lambda: log.read_text().count(SWEPT) > swept + 1, 180)
        result["afterwards"] = member.api.post("/workloads", json=WORKLOAD).status_code
        stopping.set()
        watching.join()
    return result


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
