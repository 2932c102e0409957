"""What the ops of a catalogue model cost on this device, and what of it lies above the floor. Imports without torch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernels.bring_up.document import Gap, ModelCost, Race
from kernels.ops import Case

if TYPE_CHECKING:
    from kernels.model.layer_ops import LayerOps


def race_of(case: str, rows: Sequence[Mapping[str, Any]], floor_ms: float | None) -> Race:
    """The case's outcome from the rows of its race, which are those of a bench document."""
    passed = [row for row in rows if row["gate"] == "pass" and row["ms"]]
    own, peer = (
        min((row for row in passed if row["peer"] == peers), key=lambda row: row["ms"], default=None)
        for peers in (False, True)
    )
    return Race(
        case=case,
        own=own["variant"] if own else "",
        own_ms=own["ms"] if own else None,
        peer=peer["variant"] if peer else "",
        peer_ms=peer["ms"] if peer else None,
        floor_ms=floor_ms,
    )


def cost(model: str, ops: "LayerOps", races: Mapping[str, Race]) -> ModelCost | None:
    """The cost of a request with the fastest arrangement of each pass; None when a pass has an op without a time."""
    calls: dict[Case, float] = {}
    for queries, passes in ops.traffic.phases:
        layer = _fastest(ops.arrangements(queries), races)
        around = _fastest([ops.final_ops()], races)
        if layer is None or around is None:
            return None
        for cases, times in ((layer, ops.layers), (around, 1)):
            for case in cases:
                calls[case] = calls.get(case, 0.0) + times * passes
    gaps = sorted(_gaps(model, calls, races), key=lambda gap: -gap.ms)
    return ModelCost(
        model=model,
        prompt=ops.traffic.prompt,
        tokens=ops.traffic.tokens,
        ms=sum(count * (races[case.key].best_ms or 0.0) for case, count in calls.items()),
        floor_ms=sum(count * (races[case.key].floor_ms or 0.0) for case, count in calls.items()),
        gaps=gaps,
    )


def _fastest(arrangements: Sequence[Sequence[Case]], races: Mapping[str, Race]) -> Sequence[Case] | None:
    costs = []
    for cases in arrangements:
        times = [races[case.key].best_ms for case in cases if case.key in races]
        measured = [ms for ms in times if ms is not None]
        if len(measured) == len(cases):
            costs.append((sum(measured), cases))
    return min(costs, key=lambda cost: cost[0])[1] if costs else None


def _gaps(model: str, calls: Mapping[Case, float], races: Mapping[str, Race]) -> Iterator[Gap]:
    for case, count in calls.items():
        race = races[case.key]
        if race.own_ms is None:
            kind, now, bound = "missing", race.peer_ms, race.floor_ms
        elif race.peer_ms is not None and race.peer_ms < race.own_ms:
            kind, now, bound = "behind", race.own_ms, race.peer_ms
        else:
            kind, now, bound = "above", race.own_ms, race.floor_ms
        if now is not None and bound is not None and now > bound:
            yield Gap(
                model=model, case=case.key, calls=count, kind=kind, ms=count * (now - bound),
                variant=race.own or race.peer, call_ms=now, bound_ms=bound,
            )  # fmt: skip
