"""Uploads, pages and deletion on a full disk, against a real web process. Prints what was answered as JSON."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.workbench.small_disk import fill
from tests.workbench.web_process import WebProcess

MIB = 2**20
WORKLOAD = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 5}], "name": "n" * 120}


class Site(WebProcess):
    """What a customer does."""

    def announce(self, size: int) -> httpx.Response:
        config = {"path": "config.json", "size": 2}
        return self.api.post(
            "/uploads", json={"name": "m", "files": [config, {"path": "model.safetensors", "size": size}]}
        )

    def send(self, upload: str, size: int) -> httpx.Response:
        headers = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
        return self.api.patch(f"/uploads/{upload}/files/1", content=b"x" * size, headers=headers)

    def new_session(self) -> httpx.Response:
        """A login, which writes a session."""
        with httpx.Client(base_url=self.url, timeout=60) as stranger:
            stranger.get("/login/")
            login = {"username": "engineer@voice.test", "password": "correct horse battery"}
            return stranger.post("/login/", data={**login, "csrfmiddlewaretoken": stranger.cookies["csrftoken"]})


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


def main(folder: Path) -> dict[str, Any]:
    site = Site(folder, DISK_RESERVE_BYTES=str(8 * MIB))
    site.start()
    found: dict[str, Any] = {}
    try:
        announced = [site.announce(10 * MIB) for _ in range(6)]
        found["announced"] = [response.status_code for response in announced]
        uploads = [response.json()["id"] for response in announced if response.status_code == 201]
        found["received"] = site.send(uploads[0], 10 * MIB).status_code
        filler = fill(folder)
        found["patch"] = said(site.send(uploads[1], 10 * MIB))
        found["post"] = until_full(lambda: site.api.post("/workloads", json=WORKLOAD))
        found["login"] = until_full(site.new_session)
        found["announce"] = said(site.announce(1))
        found["page"] = said(site.pages.get("/models/"))
        found["read"] = said(site.api.get("/uploads"))
        fill(folder)
        found["delete"] = [site.api.delete(f"/uploads/{upload}").status_code for upload in uploads]
        found["left"] = len(site.api.get("/uploads").json()["items"])
        found["freed"] = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize > 10 * MIB
        filler.unlink()
        found["afterwards"] = site.api.post("/workloads", json=WORKLOAD).status_code
    finally:
        site.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
