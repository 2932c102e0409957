"""Submit a workload, wait for its verdict, and exit with it: a build fails on a missed SLA.

    WORKBENCH_URL=https://workbench.example.com WORKBENCH_TOKEN=… python gate.py workload.json

Exit codes as of `workbench submit --wait`: 0 met, 1 missed, 2 usage or bad input, 3 failed, 4 not enough samples,
5 cancelled or lost, 6 too close to call.
"""

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx
from kernel_workbench_client import AuthenticatedClient
from kernel_workbench_client.api.runs import read_run, start_run
from kernel_workbench_client.api.workloads import submit_workload
from kernel_workbench_client.models import NewRun, ProblemDocument, RunDetail, Workload

OVER = ("done", "failed", "cancelled", "lost")
VERDICTS = {"met": 0, "missed": 1, "not_enough_samples": 4, "too_close": 6}
STATES = {"failed": 3, "cancelled": 5, "lost": 5}
POLL_SECONDS = float(os.environ.get("WORKBENCH_POLL_SECONDS", "5"))
PATIENCE = 60
"""So many polls in a row may find no answer, as while the server restarts."""


def answered(answer: Any) -> Any:
    """The answer; ends the program with the server's sentence where it is a problem. Raises ValueError for None."""
    if isinstance(answer, ProblemDocument):
        print(answer.detail, file=sys.stderr)
        raise SystemExit(3 if answer.status >= 500 else 2)
    if answer is None:
        raise ValueError("it sent an answer that the API does not have")
    return answer


def follow(client: AuthenticatedClient, run: RunDetail) -> RunDetail:
    """The run once it is over; prints each stage as it begins."""
    stage, silent = "", 0
    while run.state not in OVER:
        time.sleep(POLL_SECONDS)
        try:
            result = read_run.sync(run.id, client=client)
        except (httpx.TransportError, ValueError):
            result = None
        busy = result is None or (isinstance(result, ProblemDocument) and result.status in (429, 503))
        silent = silent + 1 if busy else 0
        if silent > PATIENCE:
            raise SystemExit(3)
        run = run if busy else answered(result)
        if run.stage != stage:
            stage = run.stage
            print(f"{stage}: {run.waiting or run.state}", file=sys.stderr)
    return run


def given() -> tuple[Workload, str, str]:
    """The workload, the address and the token; ends the program with a sentence where one of them is not there."""
    try:
        workload = Workload.from_dict(json.loads(Path(sys.argv[1]).read_text("utf-8")))
        return workload, os.environ["WORKBENCH_URL"].rstrip("/"), os.environ["WORKBENCH_TOKEN"]
    except (IndexError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        usage = "usage: python gate.py workload.json, with WORKBENCH_URL and WORKBENCH_TOKEN set"
        print(f"{usage} ({type(error).__name__}: {error})", file=sys.stderr)
        raise SystemExit(2) from None


def main() -> int:
    """The exit code."""
    document, url, token = given()
    try:
        return submit(document, url, token)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        print(f"{url} does not answer as a workbench does: {error}", file=sys.stderr)
        return 3


def submit(document: Workload, url: str, token: str) -> int:
    """The exit code of the run. Raises httpx.HTTPError, httpx.InvalidURL or ValueError without a usable answer."""
    with AuthenticatedClient(base_url=url, token=token) as client:
        workload = answered(submit_workload.sync(client=client, body=document, idempotency_key=uuid.uuid4().hex))
        body = NewRun(workload=workload.id)
        run = follow(client, answered(start_run.sync(client=client, body=body, idempotency_key=uuid.uuid4().hex)))
    print(f"{run.verdict or run.state}  {url}/runs/{run.id}/")
    return VERDICTS[run.verdict] if run.verdict else STATES.get(run.state, 3)


if __name__ == "__main__":
    sys.exit(main())
