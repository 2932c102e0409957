"""The cases worth exploring: every operation the workbench has variants of, and how often one request runs it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kernels.ops import AttentionCase, Case
from workers.traces.census import Counted
from workers.traces.table import Scale


def cases(counted: Sequence[Counted], scale: Scale, prompt: int, tokens: int) -> list[dict[str, Any]]:
    """[{op, label, phase, case, per_request}], the most FLOP-and-byte-heavy first.

    A decode step's attention is one case at the cache length halfway through the request: the steps differ in nothing
    else.
    """
    counts: dict[Case, float] = defaultdict(float)
    labels: dict[Case, list[str]] = defaultdict(list)
    phases: dict[Case, str] = {}
    for each in counted:
        if each.case is None:
            continue
        case = _halfway(each.case, prompt + tokens // 2)
        counts[case] += scale.of(each.phase)
        phases[case] = each.phase
        if each.label not in labels[case]:
            labels[case].append(each.label)
    found = [
        {
            "op": case.op,
            "label": ", ".join(labels[case]),
            "phase": phases[case],
            "case": case.model_dump(),
            "per_request": count,
        }
        for case, count in counts.items()
    ]
    weight = {id(entry): case.least_bytes * count for entry, (case, count) in zip(found, counts.items(), strict=True)}
    return sorted(found, key=lambda entry: -weight[id(entry)])


def _halfway(case: Case, kv_len: int) -> Case:
    if isinstance(case, AttentionCase) and case.kind == "decode":
        return case.model_copy(update={"kv_len": kv_len})
    return case
