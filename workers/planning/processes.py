"""Measures a plan in further processes, to see how much its speedup differs between processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil
import torch

from kernels.measure import host_memory
from kernels.plan import Plan
from workers.documents.measurement import ServedIds, Telemetry
from workers.documents.speedup import MIN_PROCESSES
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.alternation import Alternation
from workers.planning.fresh_process import Result, VerifyTask
from workers.planning.measuring_process import MeasuringProcess

ENOUGH_PROCESSES = 4
"""So many processes are enough where the result is clear in each of them."""
MAX_PROCESSES = 6
"""The smallest and the largest ratio of six processes enclose the median of all processes with 96.9 % confidence."""
SPARE_MEMORY = 0.1
"""The share by which a further process may need more memory than this one uses."""
MIN_PAIRS, MAX_PAIRS, PAIRS_SECONDS = 2, 10, 3.0
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


def left_out_sentence(subject: str, void: str) -> str:
    """That the subject's figures do not count, for the reason `void`, a sentence."""
    return f"{subject} is left out: {void[0].lower()}{void[1:]}"


class FurtherProcesses:
    """The further processes of the plans that verify measures.

    Those of one plan may get ready beside what is not timed: they load both sides and warm them up, and then wait for
    their turn, so that only one of them measures at a time, and nothing else runs then.
    """

    def __init__(self, document: StageInput, context: Context) -> None:
        self.document, self.context = document, context
        self._waiting: list[MeasuringProcess[Result]] = []
        self._plan: Plan | None = None

    def get_ready(self, plan: Plan, pairs: int, reserved: int) -> None:
        """Start as many as are measured where a plan is clear, as far as memory has room beside `reserved` bytes."""
        self.close()
        count = min(ENOUGH_PROCESSES - 1, copies_beside(reserved)) if plan.shards == 1 else 0
        self._plan = plan
        self._waiting = [self._start(plan, number, pairs) for number in range(2, 2 + count)]

    def wait_until_ready(self) -> None:
        """Wait until each of them waits for its turn. One that has failed is left out: it may have lacked memory."""
        begun = time.monotonic()
        for waiting in self._waiting.copy():
            if not waiting.process.is_ready(self.context.seconds_left):
                waiting.process.close()
                self._waiting.remove(waiting)
        self.context.starts_and_loads += time.monotonic() - begun

    def measure(
        self, plan: Plan, seconds: float, pairs: int, is_clear: Callable[[Sequence[Alternation]], bool]
    ) -> ProcessRuns:
        """Measures `pairs` of the plan and what runs today in one process after another, expected to take `seconds`
        each.

        With verify's own there are MIN_PROCESSES to MAX_PROCESSES of them, and no more than ENOUGH_PROCESSES where
        `is_clear` says of the further ones that their result is; where the stage's time is too short for
        MIN_PROCESSES, none is started. The caller has freed the device's memory. The first process that fails, or
        whose figures are void, is the last one; the requests of those before it are kept.
        """
        runs, context, took = ProcessRuns(), self.context, seconds
        fits = context.seconds_left >= (MIN_PROCESSES - 1) * seconds
        if plan != self._plan or not fits:
            self.close()
        while fits and len(runs.alternations) < MAX_PROCESSES - 1:
            waited = bool(self._waiting)
            if context.seconds_left < (took if waited else seconds):
                break
            if len(runs.alternations) >= ENOUGH_PROCESSES - 1 and is_clear(runs.alternations):
                break
            number, start = len(runs.alternations) + 2, time.monotonic()
            context.report_progress(0.95, f"measuring in process {number}")
            further = self._waiting.pop(0) if waited else self._start(plan, number, pairs)
            result = further.measure(max(seconds, context.seconds_left))
            if isinstance(result, str):
                runs.failure = f"Process {number} {result}."
                break
            if result.environment.telemetry.void:
                runs.failure = left_out_sentence(f"Process {number}", result.environment.telemetry.void)
                break
            runs.served_ids += [result.served_ids] if result.served_ids else []
            if result.refusal:
                runs.refusal = f"In process {number}: {result.refusal}"
                break
            runs.alternations.append(Alternation(result.before, result.after))
            runs.telemetry.append(result.environment.telemetry)
            took = time.monotonic() - start
            seconds = seconds if waited else took
            if not waited:
                context.starts_and_loads += result.starts_and_loads
            ready = f"started and loaded in {result.starts_and_loads:.1f} s, warm after {result.ready_seconds:.1f} s"
            context.report_progress(0.95, f"process {number} took {took:.1f} s: {ready}")
        self.close()
        return runs

    def close(self) -> None:
        """End those that wait."""
        for waiting in self._waiting:
            waiting.process.close()
        self._waiting = []

    def _start(self, plan: Plan, number: int, pairs: int) -> MeasuringProcess[Result]:
        task = VerifyTask(document=self.document, plan=plan, pairs=pairs)
        return MeasuringProcess(f"process-{number}", task, Result, self.context)


def copies_beside(reserved: int) -> int:
    """How many processes with this one's memory, of the GPU or the host, fit beside it and `reserved` bytes."""
    if torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        used = total - free
    else:
        free, used = host_memory.free_bytes(), psutil.Process().memory_info().rss
    return max(0, int((free - reserved) / ((1 + SPARE_MEMORY) * max(1, used))))
