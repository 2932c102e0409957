"""Notes each plan that the search for a kernels plan runs in the model, and leaves out what failed there before."""

import hashlib
import json
from collections.abc import Iterable, Sequence

from kernels.plan import Plan, PlannedOp
from kernels.tune.plan_search import PlanWatch, describe_op, pass_name
from workers.documents.stages import PlanTrial, StageInput
from workers.measuring.journal import Journal
from workers.wording.errors import error_sentence

PREFIX = "pass"
"""The first word of the journal's keys for such plans. The others are digests of ops."""


class SearchWatch(PlanWatch):
    """What fails is blamed on the ops that had not run before; plans that have all of them are left out from then on.

    `notes` has a sentence for each plan that was left out.
    """

    def __init__(self, journal: Journal) -> None:
        self.notes: list[str] = []
        self._journal = journal
        self._ran: set[str] = set()
        self._running: dict[str, PlannedOp] = {}
        self._failures = [
            (frozenset(left_out.key.split()[1:]), f"{left_out.label}: {left_out.sentence}")
            for left_out in journal.left_out
            if left_out.key.split()[0] == PREFIX
        ]

    def runs(self, queries: int, plan: Sequence[PlannedOp]) -> bool:
        """Whether no plan with these ops has failed. Raises GpuLost when the one before it has."""
        self._ran |= self._running.keys()
        self._running = {}
        ops = {_key(op): op for op in plan}
        for bad, sentence in self._failures:
            if bad <= ops.keys():
                self._say(sentence)
                return False
        new = self._new(ops)
        self._journal.note(" ".join([PREFIX, *new]), _label(queries, new.values()), self._journal.variant_seconds)
        self._running = ops
        return True

    def failed(self, queries: int, plan: Sequence[PlannedOp], error: Exception) -> None:
        """The ops that had not run before are left out from now on."""
        new = self._new(self._running)
        self._running = {}
        self._failures.append((frozenset(new), f"{_label(queries, new.values())}: Left out: {error_sentence(error)}."))
        self._say(self._failures[-1][1])

    def _new(self, ops: dict[str, PlannedOp]) -> dict[str, PlannedOp]:
        """The ops that have not run yet; all of them where each has."""
        return {key: op for key, op in ops.items() if key not in self._ran} or ops

    def _say(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def parts_left_out(document: StageInput, plan: Plan) -> list[PlanTrial]:
    """A trial of each part of a plan, or of its steps, that ended compose's process; `plan` is the one without ops."""
    unit = document.workload.objectives[0].unit
    return [
        PlanTrial(label=left_out.label, plan=plan.model_dump(), unit=unit, gate="error", reason=left_out.sentence)
        for left_out in document.left_out
        if not left_out.key.startswith("plan ")
    ]


def _label(queries: int, ops: Iterable[PlannedOp]) -> str:
    return f"{pass_name(queries)} with {' and '.join(describe_op(op) for op in ops)}"


def _key(op: PlannedOp) -> str:
    text = json.dumps([op.variant, op.params, op.case], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
