"""Further processes that measure before and after, so that the spread between processes is seen."""

import subprocess
import sys
import time
from dataclasses import dataclass, field

from kernels.plan import Plan
from workers.documents.measurement import ServedIds
from workers.documents.speedup import LEAST_PROCESSES
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.alternation import Alternation
from workers.planning.fresh_process import Result, VerifyTask

MOST_PROCESSES = 6
"""With so many, the smallest and the largest of their ratios enclose the median process with 96.9 % confidence."""
PAIRS = 10
"""Interleaved pairs of requests in a further process."""


@dataclass
class Further:
    """What the further processes served, and why there are not more ("" when nothing failed).

    `refusal` says why a process's requests of the plan do not count, as they do not in verify's own.
    """

    alternations: list[Alternation] = field(default_factory=list)
    served_ids: list[ServedIds] = field(default_factory=list)
    failure: str = ""
    refusal: str = ""


def measure_again(document: StageInput, plan: Plan, context: Context, seconds: float) -> Further:
    """Starts one process after another that measures the plan beside what runs today; `seconds` is what one may take.

    None where the time left is too short for LEAST_PROCESSES in all; at most MOST_PROCESSES in all. The caller frees
    the device's memory first. A process that fails, or is void, ends it; what the others served stands.
    """
    found = Further()
    if context.seconds_left < (LEAST_PROCESSES - 1) * seconds:
        return found
    while len(found.alternations) < MOST_PROCESSES - 1 and context.seconds_left >= seconds:
        number, start = len(found.alternations) + 2, time.monotonic()
        context.say(0.95, f"measuring in process {number}")
        result = _run(document, plan, context, number, max(seconds, context.seconds_left))
        if isinstance(result, str):
            found.failure = f"Process {number} {result}."
            break
        found.served_ids += [result.served_ids] if result.served_ids else []
        if result.refusal:
            found.refusal = f"In process {number}: {result.refusal}"
            break
        found.alternations.append(Alternation(result.before, result.after))
        seconds = time.monotonic() - start
    return found


def _run(document: StageInput, plan: Plan, context: Context, number: int, seconds: float) -> Result | str:
    """One process, or what became of it."""
    request, result = (context.artifacts / f"process-{number}-{name}.json" for name in ("request", "result"))
    request.write_text(VerifyTask(document=document, plan=plan, pairs=PAIRS, seed=2 + number).model_dump_json())
    command = [sys.executable, "-m", "workers.planning.fresh_process", str(request), str(result)]
    command += ["--model", str(context.model_dir), "--artifacts", str(context.artifacts)]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=seconds)
        served = Result.model_validate_json(result.read_bytes())
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds:.0f} s"
    except subprocess.CalledProcessError as error:
        return f"ended with code {error.returncode}"
    except (OSError, ValueError) as error:
        return f"left no result: {type(error).__name__}"
    if void := served.environment.telemetry.void:
        return f"is left out: {void[0].lower()}{void[1:-1]}"
    return served
