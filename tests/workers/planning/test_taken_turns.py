"""Which of the turns count, by what their processes wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.conftest import ENVIRONMENT, plan_of, stage_input
from tests.workers.measuring.test_outcomes import served
from tests.workers.stages.test_void_measurements import SHARED, VOID
from workers.documents.base import Document
from workers.documents.stages import StageFailure
from workers.harness.context import Context
from workers.planning import measuring_process
from workers.planning.confirmation import PlanMeasurement
from workers.planning.turn_process import TurnResult
from workers.planning.turns import Turns

NO_ROOM = StageFailure(sentence="The model does not fit")
ALONE = TurnResult(environment=ENVIRONMENT, served=served(10, 3, 8))
BESIDE = ALONE.model_copy(update={"environment": ENVIRONMENT.model_copy(update={"telemetry": SHARED})})


def taken(
    context: Context, monkeypatch: pytest.MonkeyPatch, written: Callable[[str, int], Document], seconds: float = 600
) -> PlanMeasurement:
    """A plan's turns, of which each process writes what `written` says of its side and number."""

    class Process:
        def __init__(self, _module: str, arguments: list[str]) -> None:
            self._result = Path(arguments[1])

        def run(self, seconds: float) -> int:
            side, number = self._result.name.split("-")[1:3]
            document = written(side, int(number) + 1)
            self._result.write_text(document.model_dump_json())
            return int(isinstance(document, StageFailure))

    monkeypatch.setattr(measuring_process, "FreshProcess", Process)
    document, within = stage_input("verify"), Context(context.model_dir, context.artifacts, seconds=600)
    return Turns(plan_of(document), document, within, None, False, loading_seconds=0.0, seconds=seconds).measure(
        "eager"
    )


@pytest.mark.parametrize(
    ("side", "number", "pairs"), [("before", 5, 3), ("after", 5, 3), ("before", 3, 1), ("after", 2, 1), ("none", 0, 5)]
)
def test_pairs_count_where_todays_model_has_judged_the_plans_ids(context, monkeypatch, side, number, pairs):
    attempt = taken(context, monkeypatch, lambda *turn: NO_ROOM if turn == (side, number) else ALONE)
    assert attempt.turns == pairs
    words = {"before": "what runs today", "after": "the plan", "none": ""}[side]
    assert attempt.failure == (words and f"Turn {number} of {words} ended with code 1: {NO_ROOM.sentence}.")


@pytest.mark.parametrize(
    ("seconds", "beside", "failure"),
    [
        (600, [BESIDE], ""),
        (600, [BESIDE, BESIDE], ""),
        (600, [BESIDE, NO_ROOM], f"Turn 2 of the plan ended with code 1: {NO_ROOM.sentence}."),
        (0, [BESIDE], "Time was short to take turn 2 of the plan again."),
    ],
)
def test_a_turn_beside_another_program_is_taken_once_again_where_time_is_left(
    context, monkeypatch, seconds, beside, failure
):
    def written(*turn: object) -> Document:
        return left.pop(0) if left and turn == ("after", 2) else ALONE

    left, again = beside.copy(), (seconds, beside) == (600, [BESIDE])
    attempt = taken(context, monkeypatch, written, seconds)
    assert not left
    assert attempt.turns == (5 if again else 1)
    assert attempt.void == ("" if again else VOID)
    assert (attempt.failure, attempt.refusal) == (failure, "")


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_fourth_turn_beside_another_program_leaves_three_that_count(context, monkeypatch, side):
    attempt = taken(context, monkeypatch, lambda *turn: BESIDE if turn == (side, 4) else ALONE)
    assert (attempt.turns, attempt.void, attempt.refusal) == (3, "", "")
    words = {"before": "what runs today", "after": "the plan"}[side]
    assert attempt.failure == f"Turn 4 of {words} is left out: a{VOID[1:]}"


@pytest.mark.parametrize(("seconds", "turns"), [(600, 3), (0, 1)])
def test_turns_of_what_runs_today_go_on_after_a_refused_plan_until_it_is_decided(context, monkeypatch, seconds, turns):
    """Eight requests prove a median; each turn has three."""
    last = taken(context, monkeypatch, lambda side, number: NO_ROOM if side == "after" else ALONE)
    assert last.turns == 1
    within = Context(context.model_dir, context.artifacts, seconds=seconds)
    todays = Turns(last.plan, stage_input("verify"), within, None, False, loading_seconds=0.0, seconds=600)
    todays.go_on(last)
    assert len(todays.alternations) == turns
