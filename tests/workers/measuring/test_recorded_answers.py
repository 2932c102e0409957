"""Models that generate nothing take turns as well: what one turn keeps is what the next one judges by."""

import json
from pathlib import Path

import pytest
import torch

from kernels import runners
from kernels.plan import Plan
from tests.workers.stages.kinds import EMBEDDER, IMAGES, documents
from workers.harness.context import Context
from workers.measuring import quality_by_kind
from workers.measuring.served_model import load
from workers.planning import turn_process
from workers.planning.turn_process import TurnTask


def context_of(config: dict, folder: Path) -> Context:
    (folder / "config.json").write_text(json.dumps(config))
    return Context(folder, folder, seconds=60)


@pytest.mark.parametrize("config", [EMBEDDER, IMAGES], ids=["vectors", "classes"])
def test_quality_by_kept_answers_is_that_beside_the_model(config, tmp_path):
    document, context = documents("verify", config), context_of(config, tmp_path)
    before, after = (runners.runner("eager", load(document, context, dtype)) for dtype in ("fp32", "bf16"))
    beside, _ = quality_by_kind.measure(document, context, before, after, unverified=False)
    quality_by_kind.record(document, context, before, tmp_path / "kept")
    kept, why_not = quality_by_kind.measure_recorded(document, context, tmp_path / "kept", after, unverified=False)
    assert why_not == ""
    assert kept == beside
    assert max(measure.after for measure in kept.measures) > 0


def test_answers_of_a_plans_turn_are_judged_in_todays(tmp_path):
    document, context = documents("verify", EMBEDDER), context_of(EMBEDDER, tmp_path)
    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="eager", dtype="fp32")

    def turn(side: str, seed: int) -> turn_process.TurnResult:
        task = {"document": document, "plan": plan, "side": side, "judges": [0], "usd": None, "seed": seed}
        return turn_process.measure(TurnTask(**task, seconds=0.1, seconds_left=60), context)

    after = turn("after", 1)
    assert after.refusal == ""
    assert len(after.served) >= 3
    assert turn("before", 2).refusal == ""
    kept, own = torch.load(tmp_path / "kept-0.pt")
    prompt, tokens, row, output = kept[0]
    torch.save(([(prompt, tokens, row, output + 1), *kept[1:]], own), tmp_path / "kept-0.pt")
    assert turn("before", 3).refusal.startswith("Its answer to a timed request differs from the model's by ")
