"""Joins traced time with counted shapes: one row per operation and phase, with its roofline floor."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernels.measure.roofline import MAX_FLOOR_SHARE, doubt, floors_ms
from kernels.ops import AttentionCase, Case
from workers.documents.measurement import Ceilings
from workers.documents.profile import OpRow
from workers.traces.attribution import DeviceWork
from workers.traces.labels import NOT_ATTRIBUTED
from workers.traces.op_counter import CountedOp

Bound = Literal["memory", "compute", "launch", "idle"]
LAUNCH_BOUND = 2.0
"""A kernel far above its floor that takes at most this many empty launches counts as bound by launching."""
FAR_FROM_FLOOR = 0.5


@dataclass(frozen=True)
class TraceScale:
    """Scales the traced part of a request to the whole request.

    `decode`: decode steps of a request per traced one; they are alike but for the length of their cache. `host`: time
    without the profiler over time with it, for operations timed on the host, which it slows down.
    """

    decode: float = 1.0
    host: float = 1.0

    def of(self, phase: str) -> float:
        return self.decode if phase == "decode" else 1.0


@dataclass
class _Group:
    ms: float = 0.0
    kernels: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    launches: int = 0
    counted: list[CountedOp] = field(default_factory=list)


def floors_of(counted: CountedOp, ceilings: Ceilings) -> tuple[float, float]:
    """Least ms by FLOPs and by bytes over measured rates; a dtype that was not measured has the fastest rate."""
    best = ceilings.of_single_calls
    return floors_ms(counted.flops, counted.least_bytes, (counted.dtype,), best.matrix_tflops, best.read_tbps)


def rows(
    work: Sequence[DeviceWork], counted: Sequence[CountedOp], ceilings: Ceilings, scale: TraceScale
) -> list[OpRow]:
    """The op table of one request, costliest first. `share` is of the device's time; `add_idle` rebases it.

    Raises nothing: an operation without shapes has no floor, one without time is left out.
    """
    groups: dict[tuple[str, str], _Group] = defaultdict(_Group)
    for piece in work:
        group = groups[piece.label, piece.phase]
        group.ms += piece.ms * scale.host
        group.kernels[piece.kernel] += piece.ms
        group.launches += 1
    for op in counted:
        if (op.label, op.phase) in groups:
            groups[op.label, op.phase].counted.append(op)
    total = sum(group.ms * scale.of(phase) for (_, phase), group in groups.items())
    table_rows = [_row(name, phase, group, ceilings, scale.of(phase), total) for (name, phase), group in groups.items()]
    return sorted(table_rows, key=lambda row: -row.ms)


def _row(name: str, phase: str, group: _Group, ceilings: Ceilings, scale: float, total: float) -> OpRow:
    floors = [floors_of(op, ceilings) for op in group.counted]
    compute, memory = (sum(floor[side] for floor in floors) for side in (0, 1))
    floor = sum(max(floor) for floor in floors) if floors else None
    doubtful = doubt(floor * scale, group.ms * scale) if floor is not None else ""
    bound = _bound(group, compute, memory, floor, ceilings)
    floor = None if doubtful else floor
    return OpRow(
        op=name,
        phase=phase,
        kernel=max(group.kernels, key=lambda kernel: group.kernels[kernel]),
        ms=group.ms * scale,
        share=group.ms * scale / total if total else 0.0,
        calls=round((len(group.counted) or group.launches) * scale),
        launches=round(group.launches * scale),
        shapes=_shapes(group.counted),
        flops=sum(op.flops for op in group.counted) * scale if floors else None,
        least_bytes=sum(op.least_bytes for op in group.counted) * scale if floors else None,
        floor_ms=floor * scale if floor is not None else None,
        headroom_ms=max(0.0, group.ms - floor) * scale if floor is not None else None,
        bound=bound,
        doubt=doubtful,
    )


def _bound(group: _Group, compute: float, memory: float, floor: float | None, ceilings: Ceilings) -> Bound:
    each_us = 1000 * group.ms / group.launches
    far = floor is None or floor < FAR_FROM_FLOOR * group.ms
    if each_us <= LAUNCH_BOUND * ceilings.launch_us and far:
        return "launch"
    return "compute" if compute > memory else "memory"


def _shapes(counted: Sequence[CountedOp]) -> str:
    """The distinct shapes; only the first and the last when there are many, as with a growing cache."""
    distinct = list(dict.fromkeys(op.shape for op in counted))
    return ", ".join(distinct) if len(distinct) <= 3 else f"{distinct[0]} … {distinct[-1]}"


def beyond(device_ms: float, request_ms: float) -> str:
    """A sentence when the traced times add up to more than an untraced request takes; "" otherwise."""
    if device_ms <= MAX_FLOOR_SHARE * request_ms:
        return ""
    return (
        f"What was traced adds up to {device_ms:.3g} ms, more than the {request_ms:.3g} ms of a request that is not "
        "traced: one of the two is wrong, and only the shares of the trace are used."
    )


def launches(work: Sequence[DeviceWork], scale: TraceScale) -> int:
    """How many pieces of work, kernels on a GPU, a whole request has."""
    return round(sum(scale.of(piece.phase) for piece in work))


def add_idle(rows: list[OpRow], request_ms: float) -> list[OpRow]:
    """Shares of the request's wall time, with a row for the time in which the device had nothing to do."""
    device_ms = sum(row.ms for row in rows)
    total_ms = max(request_ms, device_ms)
    idle_ms = total_ms - device_ms
    result = [row.model_copy(update={"share": row.ms / total_ms if total_ms else 0.0}) for row in rows]
    if idle_ms > 0:
        result.append(
            OpRow(op="idle", phase="all", kernel="", ms=idle_ms, share=idle_ms / total_ms, calls=1, bound="idle")
        )
    return sorted(result, key=lambda row: -row.ms)


def attributed_share(rows: Sequence[OpRow]) -> float:
    device_ms = sum(row.ms for row in rows if row.bound != "idle")
    lost = sum(row.ms for row in rows if row.op in NOT_ATTRIBUTED)
    return 1 - lost / device_ms if device_ms else 0.0


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
