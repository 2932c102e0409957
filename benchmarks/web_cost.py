"""What each kind of request of the load costs the web process in CPU time, by Django's test client.

    python -m benchmarks.web_cost                                        # about a minute
    python -m benchmarks.web_cost --json benchmarks/results/2-core-epyc/web-cost.json

In one process, on PostgreSQL, with the settings of the site, its thresholds of the garbage collector and 25 workloads
in the portfolio. CPU time is the process' own: neither the database's nor the web server's, and others at work on the
machine add little to it. Parts of pages that a process keeps are found there; a first view costs more.
"""

import argparse
import cProfile
import os
import pstats
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.host import provenance, write
from benchmarks.web_clients import FORM, READS, SUBMIT, SUBMIT_SHARE
from kernels.load.server_process import reserve_port
from tests.debian import postgres_server
from tests.redis_settings import redis_settings
from workbench.serving.worker import collect_less_garbage

ROOT = Path(__file__).parents[1]
PORTFOLIO = 25
"""Workloads of the organisation, so that the portfolio's page is full."""


def calls() -> dict[str, Callable[[], Any]]:
    """A request of each kind that the load sends, by one member of an organisation. Django is set up by then."""
    import benchmarks.web_seed as seeds

    seeds.RUNS = PORTFOLIO - 1
    facts = seeds.seed(1, 1)[0]
    from django.test import Client

    from workbench.accounts import tokens
    from workbench.accounts.models import User

    user = User.objects.get(email=facts["email"])
    client, api = Client(), Client()
    client.force_login(user)
    secret = {"Authorization": f"Bearer {tokens.issue(user.memberships.get().organisation, user, 'load', 'read')[1]}"}
    requests: dict[str, Callable[[], Any]] = {}
    for kind, (address, _) in READS.items():
        path = address.format(**facts)
        if path.startswith("/api/"):
            requests[kind] = partial(api.get, path, headers=secret)
        else:
            headers = {"HX-Request": "true"} if kind == "run, live part" else {}
            requests[kind] = partial(client.get, path, headers=headers)
    requests[SUBMIT] = partial(client.post, "/workloads/new/", FORM)
    return requests


def cost(call: Callable[[], Any], times: int) -> dict[str, float]:
    """Median and mean CPU ms of the call, once it is warm. Raises AssertionError when the answer is an error."""
    spent = []
    for _ in range(times + 3):
        began = time.process_time()
        answer = call()
        spent.append((time.process_time() - began) * 1e3)
        assert answer.status_code in (200, 302), answer.content
    warm = spent[3:]
    return {"median_ms": round(median(warm), 2), "mean_ms": round(sum(warm) / times, 2)}


@contextmanager
def own_site() -> Iterator[None]:
    """A database and a Redis of its own under the settings of the site, migrated; Django is not set up yet."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="web-cost-"))
        postgres = stack.enter_context(postgres_server("a-password", durable=True))
        port = str(reserve_port())
        redis = subprocess.Popen(
            [str(shutil.which("redis-server")), "--port", port, "--bind", "127.0.0.1", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        stack.callback(redis.wait)
        stack.callback(redis.terminate)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "workbench.settings",
            "DATABASE_URL": postgres.url,
            **redis_settings(port),
            "WORKBENCH_DATA": folder,
            "ALLOWED_HOSTS": "testserver",
            "ORGANISATION_OPEN_RUNS": "100000",
            "API_REQUESTS_PER_MINUTE": "100000",
        }
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, check=True)
        collect_less_garbage()
        sys.path.insert(0, str(ROOT / "tests"))
        yield
        from django.db import connection

        connection.close()


def measure(times: int, profiled: str) -> dict[str, Any]:
    """The document, on a database and a Redis of its own. `profiled` names a kind whose profile is printed."""
    with own_site():
        costs, kinds = {}, calls()
        for kind, call in kinds.items():
            costs[kind] = cost(call, times)
            if profiled in (kind, "all"):
                with cProfile.Profile() as profile:
                    for _ in range(times):
                        call()
                pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    weights = {kind: weight * (1 - SUBMIT_SHARE) for kind, (_, weight) in READS.items()} | {SUBMIT: 100 * SUBMIT_SHARE}
    return {
        **provenance(f"python -m benchmarks.web_cost --times {times}"),
        "cpu": costs,
        "mean_of_the_mix_ms": round(sum(costs[kind]["mean_ms"] * weights[kind] for kind in costs) / 100, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web_cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=50, help="requests of each kind")
    parser.add_argument("--profile", default="", help="a kind of request whose profile is printed")
    parser.add_argument("--json", type=Path, help="where the document goes; otherwise it is printed")
    arguments = parser.parse_args()
    write(measure(arguments.times, arguments.profile), arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
