"""The cases worth exploring: every operation the workbench has variants of, and how often one request runs it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernels.ops import AttentionCase, Case
from workers.documents.profile import OpRow
from workers.traces.op_counter import CountedOp
from workers.traces.table import TraceScale


@dataclass
class _Use:
    phase: str
    count: float = 0.0
    least_bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def profiled_cases(
    counted: Sequence[CountedOp], rows: Sequence[OpRow], scale: TraceScale, prompt: int, tokens: int
) -> list[dict[str, Any]]:
    """[{op, label, phase, case, per_request, ms}], the costliest first; ms is that of all its calls in one request.

    A decode step's attention is one case at the cache length halfway through the request: the steps differ in nothing
    else. An operation's time is shared among its cases by their least bytes.
    """
    uses: dict[Case, _Use] = {}
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for op in counted:
        totals[op.label, op.phase] += op.least_bytes
        if op.case is not None:
            use = uses.setdefault(_halfway(op.case, prompt + tokens // 2), _Use(op.phase))
            use.count += scale.of(op.phase)
            use.least_bytes[op.label] += op.least_bytes
    measured = {(row.op, row.phase): row.ms for row in rows}
    cases = [
        {
            "op": case.op,
            "label": ", ".join(use.least_bytes),
            "phase": use.phase,
            "case": case.model_dump(),
            "per_request": use.count,
            "ms": sum(
                measured.get((label, use.phase), 0.0) * least / (totals[label, use.phase] or 1)
                for label, least in use.least_bytes.items()
            ),
        }
        for case, use in uses.items()
    ]
    return sorted(cases, key=lambda entry: -entry["ms"])


def _halfway(case: Case, kv_len: int) -> Case:
    if isinstance(case, AttentionCase) and case.kind == "decode":
        return case.model_copy(update={"kv_len": kv_len})
    return case
