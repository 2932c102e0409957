"""The lines of the table that says where a plan's time goes: each operation, and what goes on inside a megakernel."""

from dataclasses import dataclass

from workers.documents.profile import OpRow, PlanProfile

MEGAKERNEL = "megakernel"
"""The row of all its launches; rows of what goes on inside are named `megakernel, gate and up projections`."""
INSIDE = f"{MEGAKERNEL}, "
MAX_LINES = 16
"""Lines beside those of the parts; smaller operations share one more."""


@dataclass(frozen=True)
class ProfileLine:
    """A line of the table; `part` says that the line above it contains its time."""

    label: str
    phase: str
    ms: float
    share: float
    floor_ms: float | None
    launches: int | None
    part: bool = False


def lines(profile: PlanProfile) -> list[ProfileLine]:
    """The operations by falling time, all of them: times and shares of the lines that are no part add up.

    A megakernel that is broken down has one line with the sums, and its parts below.
    """
    parts = [row for row in profile.rows if row.op.startswith(INSIDE)]
    totals = [_line(row) for row in profile.rows if row not in parts]
    if parts:
        launches = profile.launches - sum(line.launches or 0 for line in totals)
        floor_ms = sum(row.floor_ms or 0 for row in parts) or None
        totals.append(_sum(MEGAKERNEL, [_line(row) for row in parts], launches, floor_ms))
    totals.sort(key=lambda line: -line.ms)
    if len(totals) > MAX_LINES + 1:
        rest = totals[MAX_LINES:]
        totals = [*totals[:MAX_LINES], _sum(f"{len(rest)} others", rest, sum(line.launches or 0 for line in rest))]
    result = []
    for line in totals:
        result.append(line)
        if parts and line.label == MEGAKERNEL:
            result += [_line(row, part=True) for row in parts]
    return result


def _line(row: OpRow, part: bool = False) -> ProfileLine:
    label = row.op.removeprefix(INSIDE) if part else row.op
    return ProfileLine(label, row.phase, row.ms, row.share, row.floor_ms, row.launches, part)


def _sum(label: str, of: list[ProfileLine], launches: int, floor_ms: float | None = None) -> ProfileLine:
    phases = " and ".join(dict.fromkeys(line.phase for line in of))
    return ProfileLine(
        label, phases, sum(line.ms for line in of), sum(line.share for line in of), floor_ms, launches or None
    )
