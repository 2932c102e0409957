"""What every page and list costs where an organisation has 10,000 runs.

    python -m benchmarks.web_pages                                     # about four minutes
    python -m benchmarks.web_pages --json benchmarks/results/cpu/web-pages.json

On PostgreSQL, by Django's test client, with the settings of the site. A cost is CPU time, of the web process and of its
database connection's process, so that others at work on the machine add little: the median of the calls after the
first ones. Parts that a process keeps (rows of the portfolio, results of finished runs) are found there; `first_ms` is
the first call's. Results of price and report are whole in every run, those of the other stages in one of FULL_EVERY.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.host import load_average, provenance, write
from benchmarks.web_cost import own_site

LIMIT_MS = 200.0
MODELS, WORKLOADS, RUNS, REPORTS, PEOPLE, ENTRIES = 200, 2_000, 10_000, 1_000, 100, 10_000
BUSIEST = 2_000
"""Runs of one workload; the others share the rest."""
FULL_EVERY = 100
BATCH = 2_000


def seed(runs: int = RUNS) -> dict[str, Any]:
    """Fills the database; returns the user, and ids of things to look at. Django is set up by then."""
    import sample_runs
    from django.contrib.auth.hashers import make_password
    from django.utils import timezone

    from workbench.accounts import services
    from workbench.accounts.models import Membership, User
    from workbench.home import demo
    from workbench.reports.services import freeze
    from workbench.runs.models import Worker

    secret = make_password("correct horse battery")
    users = User.objects.bulk_create(User(email=f"member{index}@load.test", password=secret) for index in range(PEOPLE))
    organisation = services.create_organisation("Load", users[0])
    Membership.objects.bulk_create(Membership(user=user, organisation=organisation) for user in users[1:])
    first = sample_runs.run(organisation, users[0])
    open_run = sample_runs.run(organisation, users[0], state="running", upto="explore")
    report = freeze(first, users[0])
    scale = runs / RUNS
    copies = demo.copies(first, runs, int(WORKLOADS * scale), MODELS, int(BUSIEST * scale), FULL_EVERY)
    demo.copy_reports(report, copies, int(REPORTS * scale))
    _entries(organisation, users)
    Worker.objects.create(name="worker", gpu_class="h200", last_seen=timezone.now() + timedelta(hours=1))
    workload = copies[0].workload
    return {
        "user": users[0], "organisation": organisation, "run": first, "open": open_run, "report": report,
        "workload": workload, "model": workload.model, "others": copies[:5],
    }  # fmt: skip


def _entries(organisation: Any, users: list[Any]) -> None:
    from workbench.audit.models import Entry

    entries = (
        Entry(organisation=organisation, action="token.issued", actor=users[index % len(users)], subject=f"t{index}")
        for index in range(ENTRIES)
    )
    Entry.objects.bulk_create(entries, BATCH)


def addresses(facts: dict[str, Any]) -> list[str]:
    """Every list and every page of one thing; those of the API begin with /api/."""
    run, workload, report = facts["run"].id, facts["workload"].id, facts["report"].id
    compared = "&".join(f"run={compared_run.id}" for compared_run in (facts["run"], facts["others"][0]))
    pages = [
        *("/workloads/", "/workloads/?page=60", "/workloads/?state=missed", "/workloads/?q=workload+19"),
        *("/workloads/?model=model-7", "/workloads/?gpu=h200", "/workloads/?sort=oldest", "/workloads/?sort=name"),
        *("/workloads/?sort=model", "/workloads/?archived=on", "/workloads/new/", f"/workloads/new/?from={workload}"),
        *(f"/workloads/{workload}/", f"/workloads/{workload}/?page=60", f"/workloads/{workload}/delete/"),
        *(f"/runs/{run}/", f"/runs/{facts['open'].id}/", f"/runs/{run}/result/", f"/runs/{run}/delete/"),
        *("/compare/", f"/compare/?{compared}", "/example/", "/models/", f"/models/{facts['model'].id}/"),
        *(f"/models/{facts['model'].id}/delete/", "/models/upload/", "/reports/", f"/reports/{report}/", "/prices/"),
        *("/members/", "/tokens/", "/security/", "/audit/", "/notifications/", "/notifications/log/", "/kernels/"),
        *("/activity/", "/inbox/", "/palette/?q=workload+19", "/workloads/?tag=nightly", "/workloads/?project=Voice"),
        *("/reports/?sort=-title", "/kernels/small-gemm/", "/workloads/?sort=price", "/workloads/?sort=saving"),
    ]
    api = [
        *("workloads", "workloads?limit=200", "runs", "runs?limit=200", "runs?state=done", "runs?prefix=ab12"),
        *(f"runs?workload={workload}", "models", "models?limit=200", "uploads", "reports", "reports?limit=200"),
        *("catalogue", f"runs/{run}", f"runs/{run}/events", f"runs/{run}/result", f"workloads/{workload}"),
        *(f"models/{facts['model'].id}", "runs?tag=nightly", "runs?project=Voice", "workloads?project=Voice"),
    ]
    return pages + [f"/api/v1/{path}" for path in api]


def callers(facts: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    from django.test import Client

    from workbench.accounts import tokens

    person, script = Client(), Client()
    person.force_login(facts["user"])
    secret = tokens.issue(facts["organisation"], facts["user"], "load", "read")[1]
    headers = {"Authorization": f"Bearer {secret}"}
    for address in addresses(facts):
        yield (
            address,
            partial(script.get, address, headers=headers) if "/api/" in address else partial(person.get, address),
        )


def _spent_ms() -> float:
    """CPU ms so far, of this process and of the process of its database connection."""
    from django.db import connection

    pid = connection.connection.info.backend_pid
    return time.process_time() * 1e3 + int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def cost(call: Callable[[], Any], times: int) -> dict[str, float]:
    """The first call's ms, and the median of `times` calls after it. Raises AssertionError when one is no success."""
    spent = []
    for _ in range(times + 2):
        began = _spent_ms()
        answer = call()
        spent.append(_spent_ms() - began)
        assert answer.status_code == 200, (answer.status_code, answer.content[:300])
    return {"median_ms": round(median(spent[2:]), 1), "first_ms": round(spent[0], 1)}


def measure(times: int, runs: int) -> dict[str, Any]:
    with own_site():
        import django

        django.setup()
        before = load_average()
        facts = seed(runs)
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        names = {str(facts[fact].id): fact.upper() for fact in ("run", "open", "workload", "report", "model")}
        costs = {}
        for address, call in callers(facts):
            shown = address.partition("?run=")[0]
            for identity, name in names.items():
                shown = shown.replace(identity, name)
            costs[shown + ("?run=…" if "?run=" in address else "")] = cost(call, times)
            print(f"{costs[list(costs)[-1]]['median_ms']:8.1f} ms  {list(costs)[-1]}", file=sys.stderr)
    return {
        **provenance(f"python -m benchmarks.web_pages --times {times} --runs {runs}"),
        "load_average": {"before": before, "after": load_average()},
        "runs": runs,
        "limit_ms": LIMIT_MS,
        "slowest_ms": max(row["median_ms"] for row in costs.values()),
        "cpu": costs,
    }


def main() -> int:
    """Print the document, or keep it. The exit status is 1 when a page costs more than LIMIT_MS."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web_pages", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=9, help="calls of each address after the first two")
    parser.add_argument("--runs", type=int, default=RUNS, help="other numbers scale workloads and reports as well")
    parser.add_argument("--json", type=Path, help="where the document goes; otherwise it is printed")
    arguments = parser.parse_args()
    document = measure(arguments.times, arguments.runs)
    write(document, arguments.json)
    return int(document["slowest_ms"] > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
