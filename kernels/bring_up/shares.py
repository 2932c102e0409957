"""How near each op comes to its ceiling and to its best peer. Imports without torch."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.bring_up.document import Race
from kernels.measure.roofline import MAX_FLOOR_SHARE


@dataclass(frozen=True)
class OpShare:
    """An op's shares over its races: medians of `ceiling_share` and `peer_share`, and its least; None without."""

    op: str
    races: int
    of_ceiling: float | None
    lowest: float | None
    of_peer: float | None


def ceiling_share(race: Race) -> float | None:
    """The floor over the time of the fastest variant; None where one is unknown, or where it is more than can be."""
    if race.floor_ms is None or not race.best_ms:
        return None
    share = race.floor_ms / race.best_ms
    return share if share <= MAX_FLOOR_SHARE else None


def peer_share(race: Race) -> float | None:
    """The time of the fastest peer over that of our fastest variant: above 1 ours is faster; None without both."""
    return race.peer_ms / race.own_ms if race.peer_ms is not None and race.own_ms else None


def op_shares(races: Sequence[Race]) -> list[OpShare]:
    """The shares by op, in the order in which the ops come first."""
    shares = []
    for op in dict.fromkeys(race.op for race in races):
        mine = [race for race in races if race.op == op]
        ceiling, peer = _known(ceiling_share, mine), _known(peer_share, mine)
        shares.append(OpShare(op, len(mine), _median(ceiling), min(ceiling, default=None), _median(peer)))
    return shares


def _known(share: Callable[[Race], float | None], races: Sequence[Race]) -> list[float]:
    return [result for result in map(share, races) if result is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
