"""Every page and list, with three times as many runs: as many queries and no longer an answer."""

import pytest
from django.core.cache import caches
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from benchmarks import web_pages

FEW, MANY = 60, 180
MAY_GROW = ("?", "delete/", "/compare/")
"""A page of deletion names what would be deleted with it; the others are not full with few runs."""


class _Undo(Exception):
    pass


def _read(runs):
    """Queries and bytes of each address, at first, in an organisation with as many runs; rolled back."""
    result = {}
    for cache in caches.all():
        cache.clear()
    try:
        with transaction.atomic():
            facts = web_pages.seed(runs)
            kept = [str(facts[value].id) for value in ("run", "open", "workload", "report", "model")]
            for address, call in web_pages.callers(facts):
                with CaptureQueriesContext(connection) as queries:
                    answer = call()
                assert answer.status_code == 200, address
                if "?run=" not in address:
                    for identity in kept:
                        address = address.replace(identity, "ID")
                    result[address] = len(queries), len(answer.content)
            raise _Undo
    except _Undo:
        return result


@pytest.mark.django_db
def test_three_times_as_many_runs_take_no_more_queries_and_no_longer_answers(monkeypatch, settings, tmp_path):
    settings.BLOBS = tmp_path
    settings.API_REQUESTS_PER_MINUTE = 10_000
    sizes = {"MODELS": 30, "PEOPLE": 30, "ENTRIES": 60}
    sizes |= dict.fromkeys(("WORKLOADS", "REPORTS", "BUSIEST"), web_pages.RUNS // 2)
    for name, size in sizes.items():
        monkeypatch.setattr(web_pages, name, size)
    few, many = _read(FEW), _read(MANY)
    assert len(few) > 40
    assert {name: many[name][0] for name in few} == {name: queries for name, (queries, _) in few.items()}
    paged = [name for name in few if not any(part in name for part in MAY_GROW)]
    assert [name for name in paged if many[name][1] > 1.2 * few[name][1] + 1_000] == []
