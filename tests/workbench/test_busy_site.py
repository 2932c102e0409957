"""A web process that is kept busy: large bodies take neither memory nor disk, pages are answered meanwhile, a locked
database is a 503, and an organisation has a limit."""

import re
import sqlite3
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.workbench.web_process import WebProcess

PAGES = ("/workloads/", "/models/", "/workloads/new/", "/tokens/")
THREADS, LIMIT = 4, 3
"""Of each lane in WebProcess, and requests of an organisation."""
MIB = 2**20
FORM = 24 * MIB
WORKLOAD = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 5}]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    process = WebProcess(tmp_path_factory.mktemp("busy"), ORGANISATION_REQUESTS=str(LIMIT))
    process.start()
    for page in PAGES:
        process.pages.get(page).raise_for_status()
    yield process
    process.stop()


def _told(site: WebProcess, file: str, field: str) -> int:
    """The sum of a number that the kernel tells of the web process and its children."""
    pid = site.web.pid
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    matches = [re.search(rf"{field}:\s+(\d+)", Path(f"/proc/{item}/{file}").read_text()) for item in pids]
    return sum(int(match[1]) for match in matches if match)


def _peak_bytes(site: WebProcess) -> int:
    """The most memory that was held."""
    return _told(site, "status", "VmHWM") * 1024


def _written(site: WebProcess) -> int:
    """Bytes that were written, to files and sockets."""
    return _told(site, "io", "wchar")


def _send(site, kind, head):
    """The status of an anonymous form of FORM bytes, sent in small pieces."""
    body = iter([head, *[b"a" * MIB] * (FORM // MIB)])
    headers = {"Content-Type": kind, "Content-Length": str(FORM + len(head))}
    return httpx.post(f"{site.url}/login/", content=body, headers=headers, timeout=120).status_code


def test_eight_large_forms_take_no_memory_and_a_large_file_no_disk(site):
    before = _peak_bytes(site)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: _send(site, "application/x-www-form-urlencoded", b"a="), range(8)))
    assert statuses == [413] * 8
    assert _peak_bytes(site) - before < FORM
    before = _written(site)
    part = b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
    assert _send(site, "multipart/form-data; boundary=x", part) == 413
    for path in ("/login/", "/api/v1/workloads"):
        in_chunks = iter([b"a" * MIB] * (FORM // MIB))
        assert httpx.post(f"{site.url}{path}", content=in_chunks, timeout=120).status_code == 413
    assert _written(site) - before < MIB


@contextmanager
def locked(site: WebProcess) -> Iterator[None]:
    """Somebody else writes to SQLite and does not end."""
    with closing(sqlite3.connect(site.folder / "db.sqlite3", isolation_level=None, timeout=120)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def _hand_in(site: WebProcess, number: int) -> httpx.Response:
    """Every other one with a key, whose row is the first that is written."""
    headers = {"Idempotency-Key": uuid.uuid4().hex} if number % 2 else {}
    return site.api.post("/workloads", json=WORKLOAD | {"name": f"number {number}"}, headers=headers)


def test_a_locked_database_is_a_503_and_others_are_answered_meanwhile(site):
    """Each that writes waits for five seconds; an organisation has fewer of them under way than there are threads."""
    assert site.api.get("/runs").status_code == 200
    with locked(site), ThreadPoolExecutor(3 * THREADS) as pool:
        writing = [pool.submit(_hand_in, site, number) for number in range(3 * THREADS)]
        time.sleep(1)  # they have threads, or wait for one
        begun = time.monotonic()
        for page in PAGES:
            assert site.pages.get(page).status_code == 200
        assert site.api.get("/runs", headers=site.others).status_code == 200
        took = time.monotonic() - begun
        answered = sum(item.done() for item in writing)
        answers = [item.result() for item in writing]
    assert took < 10 or answered < len(writing), "they waited for those who write"
    assert {answer.status_code for answer in answers} == {503}
    for answer in answers:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["detail"] == "The workbench's database is busy; try again in a few seconds."
    assert _hand_in(site, 99).status_code == 201


def test_while_the_database_is_locked_a_token_is_read_and_a_page_that_must_write_is_a_503(site):
    """Its last use is written once a minute; that it cannot be written now is no reason to refuse the request."""
    with closing(sqlite3.connect(site.folder / "db.sqlite3", timeout=120)) as database, database:
        database.execute("UPDATE accounts_apitoken SET last_used_at = NULL")
    with locked(site):
        assert site.api.get("/runs").status_code == 200
    with locked(site), httpx.Client(base_url=site.url, timeout=120) as stranger:
        stranger.get("/login/")
        login = {"username": "engineer@voice.test", "password": "correct horse battery"}
        page = stranger.post("/login/", data=login | {"csrfmiddlewaretoken": stranger.cookies["csrftoken"]})
    assert (page.status_code, "nothing was stored; try again in a few seconds" in page.text) == (503, True)
    assert int(page.headers["Retry-After"]) > 0


def test_credentials_that_the_server_has_not_seen_are_refused_beyond_the_limit(site):
    made = [site.api.post("/tokens", json={"name": f"t{n}", "scope": "write"}).json() for n in range(THREADS)]
    with locked(site), ThreadPoolExecutor(THREADS) as pool:
        headers = [{"Authorization": f"Bearer {item['secret']}"} for item in made]
        answers = list(pool.map(lambda each: site.api.post("/workloads", json=WORKLOAD, headers=each), headers))
    assert {answer.status_code for answer in answers} == {429, 503}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["detail"] == "Your organisation has too many requests under way; try again in a second."
    assert refused.headers["Retry-After"] == "1"
