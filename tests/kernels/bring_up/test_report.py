"""The gaps of a bring-up: their sizes by hand, their order, and the sentences."""

import pytest

from kernels.bring_up import report, work
from kernels.bring_up.document import Gap, Race
from kernels.bring_up.model_cost import cost, race_of
from kernels.bring_up.shares import OpShare, op_shares


def row(variant, ms, peer=False, gate="pass"):
    return {"variant": variant, "ms": ms, "peer": peer, "gate": gate}


def test_the_fastest_that_passed_counts():
    rows = [row("mine", 3.0), row("slow", 4.0), row("wrong", 1.0, gate="fail"), row("torch", 2.0, peer=True)]
    found = race_of("a case", rows, 1.5)
    assert (found.own, found.own_ms, found.peer, found.peer_ms, found.floor_ms) == ("mine", 3.0, "torch", 2.0, 1.5)
    assert race_of("a case", [row("wrong", 1.0, gate="fail")], None) == Race(case="a case")


@pytest.fixture(scope="module")
def ops():
    return work.layer_ops("cpu", "tiny-llama")


def races(ops, **of_op):
    """A race for each case of the model: ours takes 2 ms, the peer 3, the floor 1, but for the ops given."""
    times = {"own_ms": 2.0, "peer_ms": 3.0, "floor_ms": 1.0}
    return {
        case.key: Race(case=case.key, **({"own": "mine", "peer": "torch"} | times | of_op.get(case.op, {})))
        for case in ops.cases()
    }


def test_a_gap_is_what_a_request_would_save(ops):
    kinds = {"linear": {"peer_ms": 1.25}, "lm_head": {"own": "", "own_ms": None}}
    found = cost("tiny-llama", ops, races(ops, **kinds))
    by_op = {}
    for gap in found.gaps:
        by_op.setdefault(gap.case.split()[0], gap)
    head = by_op["op=lm_head"]
    assert (head.kind, head.variant, head.calls, head.ms) == ("missing", "torch", 64, 64 * (3.0 - 1.0))
    linear = by_op["op=linear"]
    assert (linear.kind, linear.calls, linear.ms) == ("behind", 252, 252 * (2.0 - 1.25))
    norm = next(gap for gap in found.gaps if gap.case.startswith("op=rmsnorm") and gap.calls == 64)
    assert (norm.kind, norm.ms) == ("above", 64 * 1.0)
    assert [gap.ms for gap in found.gaps] == sorted((gap.ms for gap in found.gaps), reverse=True)


def test_the_cheapest_arrangement_is_the_one_that_counts(ops):
    fused = cost("tiny-llama", ops, races(ops, step_attention={"own_ms": 0.5, "peer_ms": None, "floor_ms": 0.5}))
    assert any(True for gap in fused.gaps)
    assert not any("op=attention kind=decode" in gap.case for gap in fused.gaps)
    slow = cost("tiny-llama", ops, races(ops, step_attention={"own_ms": 50.0, "peer_ms": None}))
    assert any("op=attention kind=decode" in gap.case for gap in slow.gaps)


def test_a_model_without_a_time_for_an_op_has_no_cost(ops):
    assert cost("tiny-llama", ops, races(ops, lm_head={"own_ms": None, "peer_ms": None})) is None


def test_failures_come_before_gaps_and_large_gaps_before_small_ones():
    rows = [
        {"variant": "mine", "case": "x", "gate": "fail", "sentence": "Off by 3."},
        {"variant": "mine", "case": "y", "gate": "pass", "sentence": ""},
        {"variant": "other", "case": "y", "gate": "refused", "sentence": "sm is 75."},
    ]
    proofs = report.proofs_of(rows, {"mine": "linear", "other": "linear"})
    assert (proofs[0].passed, proofs[0].failed, proofs[1].refused, proofs[1].refusal) == (1, 1, 1, "sm is 75.")
    gaps = [
        Gap(model="m", case=f"case {ms}", calls=1, kind="above", ms=ms, variant="mine", call_ms=ms + 1, bound_ms=1)
        for ms in range(1, 15)
    ]
    steps = report.next_steps(proofs, {"the race of z": "It took more than 8 s."}, gaps)
    assert len(steps) == report.NEXT_STEPS
    assert steps[0].startswith("Mend mine: 1 of 2 proofs failed, such as x: Off by 3.")
    assert steps[1] == "Find out why this gave nothing: the race of z. It took more than 8 s."
    assert "case 14" in steps[2]
    assert "case 13" in steps[3]


def test_shares_of_an_op_are_medians_and_what_cannot_be_does_not_count():
    found = op_shares(
        [
            Race(case="op=linear m=1", own="mine", own_ms=2.0, peer="torch", peer_ms=1.0, floor_ms=0.5),
            Race(case="op=linear m=2", own="mine", own_ms=1.0, peer="torch", peer_ms=3.0, floor_ms=0.8),
            Race(case="op=linear m=3", own="mine", own_ms=1.0, floor_ms=1.2),  # no time lies so far below its floor
            Race(case="op=rope"),
        ]
    )
    assert found == [OpShare("linear", 3, 0.65, 0.5, 1.75), OpShare("rope", 1, None, None, None)]
