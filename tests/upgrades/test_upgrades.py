"""Databases of landed versions: after today's migrations, every page and every answer of the API still reads them."""

import json
import re
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.programs import python

HERE = Path(__file__).parent
KEPT = sorted(HERE.glob("*.tar.xz"))
NOT_ALL = (
    r"/timeline/|/fleet/|/runs/[^/]+/(artifacts/\w+(/[\w.]+|/)|plan(\.json)?|report(\.html)?|tables.json|stages/\w+)$"
)
"""Of these an unfinished run, or one of an older version, may have none: 404 is an answer as well."""


@pytest.fixture(scope="module", params=KEPT, ids=lambda path: path.name.removesuffix(".tar.xz"))
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What each address of the upgraded database answers."""
    folder = tmp_path_factory.mktemp("upgraded")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    with sqlite3.connect(folder / "db.sqlite3") as database:
        database.executescript((folder / "database.sql").read_text("utf-8"))
    env = {"WORKBENCH_DATA": str(folder), "ALLOWED_HOSTS": "testserver"}
    answers = json.loads(python("-m", "tests.upgrades.visit", env=env))
    return {address: tuple(answer) for address, answer in answers.items()}


def test_every_page_reads_the_upgraded_database(seen: Any) -> None:
    bad = {
        address: status
        for address, (status, _) in seen.items()
        if status not in (200, 302, 405) and not (status == 404 and re.search(NOT_ALL, address))
    }
    assert bad.pop("/session/") == 409  # it is asked of no organisation
    assert not bad
    assert sum(status == 200 for status, _ in seen.values()) > 60


def _pages(seen: Any, pattern: str) -> list[str]:
    return [content for address, (status, content) in seen.items() if status == 200 and re.fullmatch(pattern, address)]


def test_runs_and_reports_show_what_was_measured(seen: Any) -> None:
    results, reports = _pages(seen, r"/runs/[^/]+/result/"), _pages(seen, r"/reports/[0-9a-f-]+/")
    assert len(results) == 7
    assert len(reports) == 3
    for pages in (results, reports):
        assert any("TTF64 p50" in page and "37.6 ms" in page for page in pages)
        assert not [page for page in pages if "This version cannot read" in page]
    assert any("Safe to promise" in page and "Published" in page for page in reports)
    assert sum("13.14x faster than before" in page for page in _pages(seen, r"/runs/[^/]+/report\.html")) == 1


def test_the_api_reads_every_document(seen: Any) -> None:
    reports = [json.loads(page) for page in _pages(seen, r"/api/v1/reports/[^/]+")]
    assert sorted(report["state"] for report in reports) == ["draft", "published", "reviewed"]
    assert len(_pages(seen, r"/api/v1/runs/[^/]+/result")) == 7
    assert len(_pages(seen, r"/api/v1/runs/[^/]+/report")) == 2
