"""Names each bottleneck in one sentence: what it is, how much it costs, what would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.documents.measurement import Ceilings
from workers.documents.profile import Bottleneck, OpRow
from workers.traces.labels import BOOKKEEPING, CONVOLUTION, EXPERTS, INPUT_AND_OUTPUT, SAMPLING, UNATTRIBUTED
from workers.wording.text import percent, plain

MAX_BOTTLENECKS = 6
MIN_SHARE = 0.02
NEAR_FLOOR = 0.8
HOST_BOUND = 0.1
"""From this share of waiting on, the host sets a phase's pace: a faster kernel only waits longer for it."""
_WHERE = {"decode": "while decoding", "prefill": "in the prefill", "forward": "in the forward pass"}
_PARTS = (
    "linear ",
    CONVOLUTION,
    "norm ",
    "activation ",
    "embedding ",
    "lm_head",
    "rope",
    "kv cache",
    "residual",
    "gated",
    "mask",
)


class HostPace(NamedTuple):
    """A phase in which the host sets the pace: what it takes for the mean launch, and how long the device waits, ms."""

    launch_ms: float
    idle_ms: float


@dataclass(frozen=True)
class RequestFacts:
    """What the sentences say of the whole request.

    `launches`: of kernels. `waits`: the share of each phase's wall time in which the device waits for the host.
    `doubtful`: what was traced adds up to more than the request takes, so only shares are said. `paces`: those of the
    phases in which the host sets the pace. `generates`: whether the model gives tokens, one after another.
    """

    ceilings: Ceilings
    on_gpu: bool
    launches: int
    waits: Mapping[str, float] = field(default_factory=dict)
    doubtful: bool = False
    paces: Mapping[str, HostPace] = field(default_factory=dict)
    generates: bool = True


def waits(rows: Sequence[OpRow], wall_ms: Mapping[str, float]) -> dict[str, float]:
    """The share of each phase's wall time, given by phase in ms, in which the device has nothing to do."""
    busy = {phase: sum(row.ms for row in rows if row.phase == phase) for phase in wall_ms}
    return {phase: max(0.0, 1 - busy[phase] / ms) for phase, ms in wall_ms.items() if ms > 0}


def paces(rows: Sequence[OpRow], wall_ms: Mapping[str, float]) -> dict[str, HostPace]:
    """The pace of each phase in which the host sets it, by the phase's wall time in ms."""
    paces = {}
    for phase, share in waits(rows, wall_ms).items():
        launches = sum(row.launches or row.calls for row in rows if row.phase == phase)
        if share >= HOST_BOUND and launches:
            paces[phase] = HostPace(wall_ms[phase] / launches, share * wall_ms[phase])
    return paces


def bottlenecks(rows: Sequence[OpRow], request: RequestFacts) -> list[Bottleneck]:
    """The costliest rows, most expensive first, each with its sentence."""
    worst = [row for row in sorted(rows, key=lambda row: -row.ms) if row.share >= MIN_SHARE][:MAX_BOTTLENECKS]
    return [
        Bottleneck(
            rank=rank,
            op=row.op,
            ms=row.ms,
            share=row.share,
            bound=row.bound,
            sentence=f"{_what(row, request.doubtful)}: {_advice(row, request)}",
        )
        for rank, row in enumerate(worst, 1)
    ]


def _what(row: OpRow, doubtful: bool) -> str:
    share = f"{100 * row.share:.0f} % of"
    cost = f"{share} what was traced" if doubtful else f"{plain(row.ms)} ms, {share} the request"
    if row.bound == "idle":
        return f"Waiting for the host takes {cost}"
    where = _WHERE.get(row.phase)
    return f"The operation {row.op} takes {cost}{f', {where}' if where else ''}"


def _advice(row: OpRow, request: RequestFacts) -> str:
    rules = (_idle, _unknown, _own_code, _bookkeeping, _cache, _doubt, _attention, _launch)
    for rule in (*rules, _near_floor, _memory, _compute):
        advice = rule(row, request)
        if advice:
            return advice
    return "it has no roofline floor here; fuse it with its neighbours or remove it."


def _idle(row: OpRow, request: RequestFacts) -> str:
    if row.bound != "idle":
        return ""
    if request.on_gpu:
        step = "the step as a CUDA graph, or running it as one megakernel,"
        return (
            f"the GPU idles between {request.launches:,} launches a request; recording "
            f"{step if request.generates else 'the pass as one CUDA graph'} takes the host out of the way."
        )
    return "Python runs between the operations; compiling the model removes most of it."


def _unknown(row: OpRow, request: RequestFacts) -> str:
    if row.op != UNATTRIBUTED:
        return ""
    return (
        f"neither their place nor their names tell what these kernels do, of which {row.kernel} takes longest; find "
        "the code that launches it."
    )


def _own_code(row: OpRow, request: RequestFacts) -> str:
    """A module's operation that is none of a transformer's usual parts."""
    if row.op.startswith(_PARTS) or "(" not in row.op:
        return ""
    module, calls = row.op.split(" (")[0], "1 call" if row.calls == 1 else f"{row.calls:,} calls"
    return (
        f"{calls} of {row.kernel} in the model's own code of {module}, none of a transformer's usual operations; "
        "compile the model, which may fuse it, or simplify it or take it out of the request."
    )


def _bookkeeping(row: OpRow, request: RequestFacts) -> str:
    if row.op == INPUT_AND_OUTPUT:
        return "it makes the model's input and reads its answer, outside the model's own code."
    if row.op not in (SAMPLING, BOOKKEEPING, "mask and positions", "rope angles"):
        return ""
    if row.phase == "forward":
        return "this is bookkeeping around the model, operation by operation; compiling the model removes most of it."
    return (
        "this is bookkeeping around the model, operation by operation and anew for every token; a static cache with "
        "the sampling inside the compiled step removes nearly all of it."
    )


def _cache(row: OpRow, request: RequestFacts) -> str:
    if row.op != "kv cache update" or row.phase != "decode":
        return ""
    return "every step copies the whole cache to make room for one token; a static cache appends in place."


def _doubt(row: OpRow, request: RequestFacts) -> str:
    if not row.doubt:
        return ""
    return f"{row.doubt[:1].lower()}{row.doubt[1:-1]}, so nothing is concluded from it."


def _attention(row: OpRow, request: RequestFacts) -> str:
    if row.op != "attention" or row.bound == "launch":
        return ""
    if any(word in row.kernel.lower() for word in ("softmax", "bmm", "matmul", "gemm", "elementwise")):
        return "it writes the scores to memory (the math path); FlashAttention keeps them on the chip."
    if not request.on_gpu:
        return f"it runs at {_share(row)} of the roofline; compiling the model fuses what surrounds it."
    if row.phase == "decode":
        return (
            f"it reads the KV cache at {_share(row)} of the roofline; splitting the keys over more blocks would help."
        )
    return f"it runs at {_share(row)} of the roofline; a FlashAttention kernel made for this GPU would help."


def _launch(row: OpRow, request: RequestFacts) -> str:
    if row.bound != "launch":
        return ""
    launches = row.launches or row.calls
    each_us, what = 1000 * row.ms / max(1, launches), "kernel launches" if request.on_gpu else "operations"
    most, pace = row.ms if row.headroom_ms is None else row.headroom_ms, request.paces.get(row.phase)
    megakernel = " or a megakernel" if request.generates else ""
    sentence = (
        f"{launches:,} {what} in {row.calls:,} calls take {each_us:.1f} µs each, where an empty launch takes "
        f"{request.ceilings.launch_us:.1f} µs; fusing it with its neighbours{megakernel} could save up to"
    )
    if not request.on_gpu or pace is None:
        return f"{sentence} {plain(most)} ms."
    now = min(launches * pace.launch_ms, pace.idle_ms)
    return (
        f"{sentence} {plain(now)} ms now, at the {plain(1000 * pace.launch_ms)} µs that the host takes for the mean "
        f"launch, and {plain(most)} ms of the device's time once the host is out of the way."
    )


def _near_floor(row: OpRow, request: RequestFacts) -> str:
    if not row.floor_ms or row.floor_ms < NEAR_FLOOR * row.ms:
        return ""
    remedy = "weights in lower precision or a larger batch" if row.bound == "memory" else "lower precision"
    return f"it is at {_share(row)} of the roofline already, so only {remedy} would help."


def _memory(row: OpRow, request: RequestFacts) -> str:
    if row.bound != "memory" or not row.floor_ms or not row.least_bytes:
        return ""
    rate, best = row.least_bytes / row.ms / 1e6, 1000 * request.ceilings.of_single_calls.read_tbps
    start = f"it moves {plain(rate)} GB/s of the {plain(best)} GB/s measured and {_saves(row, request)}"
    if row.op.startswith(("linear", "lm_head")):
        return f"{start}; a GEMM made for few rows, or weights in lower precision, would help."
    if row.op == EXPERTS:
        return f"{start}; a grouped GEMM made for few rows would help."
    return f"{start}; fusing it with its neighbours saves the trips to memory."


def _compute(row: OpRow, request: RequestFacts) -> str:
    if row.bound != "compute" or not row.floor_ms:
        return ""
    remedy = "a better tiled GEMM or lower precision" if row.op != EXPERTS else "a better grouped GEMM"
    return f"it runs at {_share(row)} of the measured matrix rate and {_saves(row, request)}; {remedy} would help."


def _saves(row: OpRow, request: RequestFacts) -> str:
    """What a row at its floor would save now, and what once the host is out of the way."""
    most, waiting = plain(row.headroom_ms or 0.0), request.waits.get(row.phase, 0.0)
    if not request.on_gpu or waiting < HOST_BOUND:
        return f"could save {most} ms"
    return (
        f"could save {most} ms once the host is out of the way, next to nothing now, since the device waits for the "
        f"host {100 * waiting:.0f} % of the time {_WHERE.get(row.phase, 'of the request')}"
    )


def _share(row: OpRow) -> str:
    return percent(row.floor_ms / row.ms, 0) if row.floor_ms else "an unknown share"
