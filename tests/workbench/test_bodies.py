"""Bodies are limited before anything parses them, and nobody makes the web process swallow one."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client

from tests.workbench.web_process import WebProcess

MIB = 2**20
FORM = 24 * MIB


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    process = WebProcess(tmp_path_factory.mktemp("data"))
    process.start()
    yield process
    process.stop()


def _told(site: WebProcess, file: str, field: str) -> int:
    """The sum of a number that the kernel tells of the web process and its children."""
    pid = site.web.pid
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    found = [re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{each}/{file}").read_text()) for each in pids]
    return sum(int(each[1]) for each in found if each)


def _peak_bytes(site: WebProcess) -> int:
    """The most memory that was held."""
    return _told(site, "status", "VmHWM") * 1024


def _written(site: WebProcess) -> int:
    """Bytes that were written, to files and sockets."""
    return _told(site, "io", "wchar")


def _send(site: WebProcess, kind: str, head: bytes) -> int:
    """The status of an anonymous form of FORM bytes, sent in small pieces."""

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(FORM // MIB):
            yield b"a" * MIB

    headers = {"Content-Type": kind, "Content-Length": str(FORM + len(head))}
    return httpx.post(f"{site.url}/login/", content=body(), headers=headers, timeout=120).status_code


def test_eight_large_forms_take_no_memory(site: WebProcess) -> None:
    before = _peak_bytes(site)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: _send(site, "application/x-www-form-urlencoded", b"a="), range(8)))
    assert statuses == [413] * 8
    assert _peak_bytes(site) - before < FORM


def test_a_large_file_in_a_form_takes_no_disk(site: WebProcess) -> None:
    before = _written(site)
    part = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    assert _send(site, "multipart/form-data; boundary=x", part) == 413
    assert _written(site) - before < MIB


@pytest.mark.parametrize("path", ["/login/", "/api/v1/workloads"])
def test_bodies_in_chunks_are_counted(site: WebProcess, path: str) -> None:
    def body() -> Iterator[bytes]:
        for _ in range(FORM // MIB):
            yield b"a" * MIB

    before = _written(site)
    assert httpx.post(f"{site.url}{path}", content=body(), timeout=120).status_code == 413
    assert _written(site) - before < MIB


def test_a_body_without_a_length_is_refused(client: Client) -> None:
    """As another server than ours would pass it on."""
    answer = client.post("/api/v1/workloads", headers={"Transfer-Encoding": "chunked", "Content-Length": ""})
    assert answer.status_code == 411


def _post(client: Client, method: str, path: str, length: int) -> int:
    """The status of a request that says that its body has so many bytes."""
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    return client.generic(method, path, b"x" * length, content_type=kind).status_code


LIMITS = [
    ("nobody", "POST", "/login/", 64 * 1024),
    ("nobody", "POST", "/workloads/new/", 64 * 1024),
    ("nobody", "POST", "/api/v1/workloads", 64 * 1024),
    ("nobody", "POST", "/api/v1/worker/result", 64 * 1024),
    ("nobody", "PATCH", "/api/v1/uploads/1/files/1", 64 * 1024),
    ("member", "POST", "/workloads/new/", MIB),
    ("token", "POST", "/api/v1/workloads", MIB),
    ("token", "POST", "/api/v1/uploads", 4 * MIB),
]


@pytest.mark.parametrize(("who", "method", "path", "limit"), LIMITS)
def test_each_address_has_its_limit(
    browser: Any, api: Any, engineer: Any, who: str, method: str, path: str, limit: int
) -> None:
    client = {"nobody": Client, "member": lambda: browser(engineer), "token": lambda: api(engineer)}[who]()
    assert _post(client, method, path, limit + 1) == 413
    assert _post(client, method, path, limit) != 413


def test_the_refusal_is_a_page_or_a_problem(client: Client) -> None:
    page = client.generic("POST", "/login/", b"x" * MIB)
    assert (page.status_code, page.headers["Content-Type"]) == (413, "text/html; charset=utf-8")
    assert "at most 65,536 are taken here" in page.content.decode()
    problem = client.generic("POST", "/api/v1/workloads", b"x" * MIB)
    assert problem.headers["Content-Type"] == "application/problem+json"
    assert problem.json()["detail"] == "The body has 1,048,576 bytes; at most 65,536 are taken here."
