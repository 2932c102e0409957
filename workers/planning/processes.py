"""Measures a plan in further processes, to see how much its speedup differs between processes."""

import secrets
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernels.plan import Plan
from workers.documents.measurement import ServedIds, Telemetry
from workers.documents.speedup import LEAST_PROCESSES
from workers.documents.stages import StageInput
from workers.harness import fresh_processes
from workers.harness.context import Context
from workers.measuring.alternation import Alternation
from workers.planning.fresh_process import Result, VerifyTask

ENOUGH_PROCESSES = 4
"""So many processes are enough where the result is clear in each of them."""
MOST_PROCESSES = 6
"""The smallest and the largest ratio of six processes enclose the median of all processes with 96.9 % confidence."""
LEAST_PAIRS, MOST_PAIRS, PAIRS_SECONDS = 3, 10, 3.0
"""Pairs of requests, one before and one after, that each further process serves alternately: as many as take about so
many seconds, within these bounds."""


@dataclass
class ProcessRuns:
    """The requests of the further processes, the device meanwhile, and the judgement on the ids that each served.

    `failure` says which process failed and how, `refusal` why the plan's requests in one of them are not valid; both
    are "" if nothing went wrong.
    """

    alternations: list[Alternation] = field(default_factory=list)
    telemetry: list[Telemetry] = field(default_factory=list)
    served_ids: list[ServedIds] = field(default_factory=list)
    failure: str = ""
    refusal: str = ""


def measure_again(
    document: StageInput,
    plan: Plan,
    context: Context,
    seconds: float,
    pairs: int,
    is_clear: Callable[[Sequence[Alternation]], bool],
) -> ProcessRuns:
    """Measures `pairs` of the plan and what runs today in one process after another, expected to take `seconds` each.

    With verify's own there are LEAST_PROCESSES to MOST_PROCESSES of them, and no more than ENOUGH_PROCESSES where
    `is_clear` says of the further ones that their result is; where the stage's time is too short for LEAST_PROCESSES,
    none is started. The caller has freed the device's memory. The first process that fails, or whose figures are void,
    is the last one; the requests of those before it are kept.
    """
    runs = ProcessRuns()
    if context.seconds_left < (LEAST_PROCESSES - 1) * seconds:
        return runs
    while len(runs.alternations) < MOST_PROCESSES - 1 and context.seconds_left >= seconds:
        if len(runs.alternations) >= ENOUGH_PROCESSES - 1 and is_clear(runs.alternations):
            break
        number, start = len(runs.alternations) + 2, time.monotonic()
        context.say(0.95, f"measuring in process {number}")
        result = _run(document, plan, context, number, pairs, max(seconds, context.seconds_left))
        if isinstance(result, str):
            runs.failure = f"Process {number} {result}."
            break
        runs.served_ids += [result.served_ids] if result.served_ids else []
        if result.refusal:
            runs.refusal = f"In process {number}: {result.refusal}"
            break
        runs.alternations.append(Alternation(result.before, result.after))
        runs.telemetry.append(result.environment.telemetry)
        seconds = time.monotonic() - start
        ready = f"loaded after {result.loading_seconds:.1f} s, warm after {result.ready_seconds:.1f} s"
        context.say(0.95, f"process {number} took {seconds:.1f} s: {ready}")
    return runs


def _run(document: StageInput, plan: Plan, context: Context, number: int, pairs: int, seconds: float) -> Result | str:
    """The result of one process, or the end of a sentence on why it gave none."""
    request, result = (context.artifacts / f"process-{number}-{name}.json" for name in ("request", "result"))
    request.write_text(
        VerifyTask(document=document, plan=plan, pairs=pairs, seed=secrets.randbits(32)).model_dump_json()
    )
    arguments = [str(request), str(result), "--model", str(context.model_dir), "--artifacts", str(context.artifacts)]
    try:
        if code := fresh_processes.run("workers.planning.fresh_process", arguments, seconds):
            return f"ended with code {code}"
        served = Result.model_validate_json(result.read_bytes())
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds:.0f} s"
    except (OSError, ValueError) as error:
        return f"left no result: {type(error).__name__}"
    if void := served.environment.telemetry.void:
        return f"is left out: {void[0].lower()}{void[1:-1]}"
    return served
