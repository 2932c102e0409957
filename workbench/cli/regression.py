"""The build gate: a run held against a kept one."""

import re
from typing import Any

from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError, Exit
from workers.documents.stages import Results
from workers.documents.workload import Workload
from workers.stats.regression import Judgement, KeptRun, NotComparable, TooFewProcesses, judge

LIMIT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%?")


def limit_of(text: str) -> float:
    """`3%` or `3` as the share 0.03. Raises CliError."""
    match = LIMIT.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= 100:
        raise CliError(f"--fail-on-regression takes a percentage above 0 and up to 100, such as 3%, not {text}.")
    return float(match[1]) / 100


def against(api: ApiClient, run: dict[str, Any], kept_id: str, limit: float) -> Judgement:
    """The run against the kept one. Raises CliError: with NOT_ENOUGH_SAMPLES where processes are too few."""
    reference = api.get(f"/runs/{api.run_id(kept_id)}")
    if reference["id"] == run["id"]:
        raise CliError("--against names the same run; give a kept one.")
    try:
        return judge(_read_run(api, reference), _read_run(api, run), limit)
    except NotComparable as error:
        raise CliError(str(error), Exit.USAGE) from None
    except TooFewProcesses as error:
        raise CliError(str(error), Exit.NOT_ENOUGH_SAMPLES) from None


def _read_run(api: ApiClient, run: dict[str, Any]) -> KeptRun:
    workload = api.get(f"/workloads/{run['workload']}")
    return KeptRun(
        f"run {run['id'][:8]} of {run['created_at'][:16].replace('T', ' ')}",
        workload["model"]["digest"],
        Workload.model_validate(workload["document"]),
        Results.model_validate(api.get(f"/runs/{run['id']}/result")["results"]),
    )
