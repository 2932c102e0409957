"""Every operation of a plan's profile is in the table, and a divided megakernel is one line with its parts below."""

import pytest

from workers.documents.profile import OpRow, PlanProfile
from workers.wording import plan_profile
from workers.wording.plan_profile import MOST


def row(op: str, ms: float, launches: int | None = None, floor_ms: float | None = None) -> OpRow:
    return OpRow(
        op=op, phase="decode", kernel="k", ms=ms, share=ms / 100, calls=1, launches=launches, floor_ms=floor_ms,
        bound="memory",
    )  # fmt: skip


def profile(*rows: OpRow) -> PlanProfile:
    return PlanProfile(
        request_ms=100, device_ms=100, launches=100, attributed_share=1, rows=list(rows), sentence="A request."
    )


def test_parts_of_the_megakernel_stand_below_a_line_with_their_sums():
    found = plan_profile.lines(
        profile(
            row("linear", 60, 80),
            row("megakernel, gate and up projections", 20, floor_ms=25),
            row("megakernel, LM head", 9, floor_ms=5),
            row("megakernel, between instructions", 1),
            row("norm", 10, 7),
        )
    )
    assert [(each.label, each.part) for each in found] == [
        ("linear", False),
        ("megakernel", False),
        ("gate and up projections", True),
        ("LM head", True),
        ("between instructions", True),
        ("norm", False),
    ]
    whole = found[1]
    assert (whole.ms, whole.share, whole.floor_ms, whole.launches) == (30, pytest.approx(0.3), 30, 13)
    assert sum(each.ms for each in found if not each.part) == 100


@pytest.mark.parametrize(("count", "said"), [(MOST + 1, "op 1"), (MOST + 5, "5 others")])
def test_no_operation_is_left_out(count, said):
    found = plan_profile.lines(profile(*(row(f"op {each}", each, 2, 0.5) for each in range(1, count + 1))))
    assert len(found) == MOST + 1
    assert sum(each.ms for each in found) == count * (count + 1) / 2
    assert sum(each.launches or 0 for each in found) == 2 * count
    last = found[-1]
    assert (last.label, last.phase) == (said, "decode")
