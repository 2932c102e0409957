"""Figures, promises, stages and profiles as people read them."""

import pytest

from tests.sample_results import results, stage_input, verify
from workers.documents.measurement import Telemetry
from workers.documents.profile import OpRow, PlanProfile
from workers.documents.workload import Objective
from workers.planning.verdict_words import busy_words, sentence
from workers.wording import plan_profile
from workers.wording.plan_profile import MAX_LINES
from workers.wording.stages import out_of_time
from workers.wording.text import dollars, moment, number, objective_limit, percent, plain, points, quantity


def test_numbers_have_three_digits_and_in_sentences_no_zeros_at_the_end():
    values = (81.46, 1071.2, 0.00213, 0, None, 2e-9)
    assert [number(value) for value in (9.996, -0.99988, 99.96)] == ["10.0", "-1.00", "100"]
    assert [number(value) for value in values] == ["81.5", "1,071", "0.00213", "0", "–", "2.00e-09"]
    assert [plain(value) for value in (10, 0.8, 3860.4, 100, 0)] == ["10", "0.8", "3,860", "100", "0"]
    assert [quantity(81.46, "ms"), quantity(1.234, "USD/Mtok")] == ["81.5 ms", "$1.23 / M tokens"]
    assert [dollars(0.1234), dollars(0.8)] == ["$0.123", "$0.80"]


def test_a_small_share_is_not_nothing_and_a_difference_of_shares_is_in_points():
    shares = ((0.004, 0), (0.0004, 1), (-0.0004, 1), (0.0, 0), (0.006, 0))
    assert [percent(*share) for share in shares] == ["<1 %", "<0.1 %", ">-0.1 %", "0 %", "1 %"]
    assert [points(-0.02415, 3), points(None)] == ["-2.415 points", "–"]


def test_a_time_names_its_zone():
    assert moment("2026-11-23T20:38:51+00:00") == moment("2026-11-23T20:38:51Z") == "2026-11-23 20:38:51 UTC"


@pytest.mark.parametrize(("share", "idle"), [(0.87, True), (0.05, False), (None, False)])
def test_more_minutes_are_no_advice_on_a_busy_machine(share, idle):
    compose = results().compose
    beside = {"gpu_class": "cpu", "telemetry": Telemetry(others_cpu_share=share)}
    busy = compose.model_copy(update={"environment": compose.environment.model_copy(update=beside)})
    known = results().model_copy(update={"compose": busy})
    words = out_of_time(stage_input().model_copy(update={"stage": "verify", "results": known}))
    assert words.startswith("Out of time while measuring the best plan")
    assert ("used 87 % of the CPU" in words, "idle machine" in words, "more minutes" in words) == (idle, idle, not idle)


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"metric": "ttft", "limit": 100}, "≤ 100 ms"),
        ({"metric": "throughput", "limit": 1000}, "≥ 1,000 tokens/s"),
        ({"metric": "ttf_n", "n": 64, "at_least_faster": 1.5}, "≥ 1.5x faster"),
        ({"metric": "throughput", "at_least_faster": 2}, "≥ 2x as much"),
    ],
)
def test_a_promise_in_words(objective, words):
    assert objective_limit(Objective.model_validate(objective)) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(37.481, "is 37.5 ms where"), (99.962, "is 99.96 ms"), (100.02, "is 100.02 ms"), (100, "is 100 ms")],
)
def test_a_value_is_as_exact_as_in_tables_or_tells_itself_from_the_limit(value, words):
    result = verify()
    outcome = result.outcomes[0].model_copy(update={"after": value, "before": 769.42})
    verdict = sentence([outcome], result.speedup, None, "met", "no text")
    assert f"TTF64 p50 {words}" in verdict
    assert "before, it was 769 ms" in verdict


def test_what_is_undecided_on_a_busy_machine_says_so():
    for verdict in ("too_close", "not_enough_samples"):
        assert busy_words(0.54, verdict).startswith("Nothing is decided: the machine was busy. ")
        assert " 54 % of" in busy_words(0.54, verdict)
    assert busy_words(None, "too_close") == busy_words(0.54, "met") == busy_words(0.54, "missed") == ""


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
    lines = plan_profile.lines(
        profile(
            row("linear", 60, 80),
            row("megakernel, gate and up projections", 20, floor_ms=25),
            row("megakernel, LM head", 9, floor_ms=5),
            row("megakernel, between instructions", 1),
            row("norm", 10, 7),
        )
    )
    assert [(line.label, line.part) for line in lines] == [
        ("linear", False), ("megakernel", False), ("gate and up projections", True), ("LM head", True),
        ("between instructions", True), ("norm", False),
    ]  # fmt: skip
    whole = lines[1]
    assert (whole.ms, whole.share, whole.floor_ms, whole.launches) == (30, pytest.approx(0.3), 30, 13)
    assert sum(line.ms for line in lines if not line.part) == 100


@pytest.mark.parametrize(("count", "said"), [(MAX_LINES + 1, "op 1"), (MAX_LINES + 5, "5 others")])
def test_no_operation_is_left_out(count, said):
    lines = plan_profile.lines(profile(*(row(f"op {index}", index, 2, 0.5) for index in range(1, count + 1))))
    assert len(lines) == MAX_LINES + 1
    assert sum(line.ms for line in lines) == count * (count + 1) / 2
    assert sum(line.launches or 0 for line in lines) == 2 * count
    last = lines[-1]
    assert (last.label, last.phase) == (said, "decode")
