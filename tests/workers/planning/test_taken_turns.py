"""Which of the turns count, by what their processes wrote."""

from pathlib import Path

import pytest

from kernels.plan import Plan
from tests.workers.conftest import stage_input
from tests.workers.measuring.test_outcomes import served
from tests.workers.stages.test_confirmed_plans import ENVIRONMENT
from workers.documents.stages import StageFailure
from workers.harness.context import Context
from workers.planning import measuring_process
from workers.planning.turn_process import TurnResult, TurnTask
from workers.planning.turns import Turns

NO_ROOM = StageFailure(sentence="The model does not fit")


@pytest.mark.parametrize(
    ("side", "number", "pairs"), [("before", 5, 3), ("after", 5, 3), ("before", 3, 1), ("after", 2, 1), ("none", 0, 5)]
)
def test_pairs_count_where_todays_model_has_judged_the_plans_ids(context, monkeypatch, side, number, pairs):
    class Process:
        """One of a side that ends with an error in its turn `number`."""

        def __init__(self, _module: str, arguments: list[str]) -> None:
            self._request, self._result = (Path(argument) for argument in arguments[:2])

        def run(self, seconds: float) -> int:
            task = TurnTask.model_validate_json(self._request.read_bytes())
            failed = task.side == side and f"-{number - 1}-" in self._request.name
            turn = TurnResult(environment=ENVIRONMENT, served=served(10, 3))
            self._result.write_text((NO_ROOM if failed else turn).model_dump_json())
            return int(failed)

    monkeypatch.setattr(measuring_process, "FreshProcess", Process)
    document, within = stage_input("verify"), Context(context.model_dir, context.artifacts, seconds=600)
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="eager", dtype="fp32")
    taken = Turns(plan, document, within, None, unverified=False, seconds=600)
    taken.take(0.0, lambda alternations: False)
    assert len(taken.alternations) == pairs
    words = {"before": "what runs today", "after": "the plan", "none": ""}[side]
    assert taken.failure == (words and f"Turn {number} of {words} ended with code 1: {NO_ROOM.sentence}.")
