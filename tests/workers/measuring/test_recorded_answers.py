"""Models that generate nothing take turns as well: what one turn saves is what the next one judges by."""

import pytest
import torch

from kernels import runners
from kernels.plan import Plan
from tests.workers.conftest import context_of, plan_of
from tests.workers.stages.kinds import EMBEDDER, IMAGES, documents
from workers.measuring import quality_by_kind
from workers.measuring.served_model import NoRoom, load
from workers.planning import turn_process
from workers.planning.turn_process import TurnTask


@pytest.mark.parametrize(("config", "served"), [(EMBEDDER, "compiled"), (IMAGES, "eager")], ids=["vectors", "classes"])
def test_quality_by_recorded_answers_is_that_beside_the_model(config, served, tmp_path):
    document, context = documents("verify", config), context_of(config, tmp_path)
    before = runners.runner(served, load(document, context), {"compile": False})
    after = runners.runner("eager", load(document, context, "bf16"))
    beside, _ = quality_by_kind.measure(document, context, before, after, unverified=False)
    assert quality_by_kind.record(document, context, before, tmp_path / "answers") == ""
    recorded, why_not = quality_by_kind.measure_recorded(
        document, context, tmp_path / "answers", after, unverified=False
    )
    assert why_not == ""
    assert recorded == beside
    assert max(measure.after for measure in recorded.measures) > 0


def test_answers_of_a_plans_turn_are_judged_in_todays(tmp_path):
    document, context = documents("verify", EMBEDDER), context_of(EMBEDDER, tmp_path)
    plan = plan_of(document)

    def turn(side: str, seed: int) -> turn_process.TurnResult:
        task = {"document": document, "plan": plan, "side": side, "judges": [0], "usd": None, "seed": seed}
        return turn_process.measure(TurnTask(**task, seconds=0.1, seconds_left=60), context)

    after = turn("after", 1)
    assert after.refusal == ""
    assert len(after.served) >= 3
    assert turn("before", 2).refusal == ""
    sample, gaps = torch.load(tmp_path / "sample-0.pt")
    prompt, tokens, row, output = sample[0]
    torch.save(([(prompt, tokens, row, output + 1), *sample[1:]], gaps), tmp_path / "sample-0.pt")
    assert turn("before", 3).refusal.startswith("Its answer to a timed request differs from the model's by ")


def test_a_turn_without_room_for_float32_has_its_timings_and_says_so(tmp_path, monkeypatch):
    def no_room(*_, **__):
        raise NoRoom("The model does not fit.")

    document, context = documents("verify", IMAGES, constraints={"precisions": ["bf16"]}), context_of(IMAGES, tmp_path)
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="eager", dtype="bf16")
    monkeypatch.setattr(quality_by_kind, "load", no_room)
    task = TurnTask(
        document=document, plan=plan, side="before", judges=[], records=True, usd=None, seed=1, seconds=0.1,
        seconds_left=60,
    )  # fmt: skip
    turn = turn_process.measure(task, context)
    assert turn.no_quality == "The model does not fit (NoRoom)"
    assert len(turn.served) >= 3
