"""A model that finds objects in images: its boxes are judged beside its logits."""

import json

import torch

from kernels.engine import Generation
from kernels.engine.eager import EagerRunner
from kernels.plan import Plan
from tests.workers.stages.test_kinds import VIT, documents
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.measuring import quality_by_kind
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load
from workers.planning.served_checks import judge_served
from workers.planning.trials import Times, Trier, yardstick

DETECTOR = VIT | {
    "model_type": "yolos",
    "architectures": ["YolosForObjectDetection"],
    "num_hidden_layers": 2,
    "image_size": [32, 32],
    "num_detection_tokens": 6,
}


class MovesBoxes(EagerRunner):
    """Its logits of the classes are honest; the boxes are all moved by a third of the image."""

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        found = super().logits(ids)
        found[..., -4:-2] += 1 / 3
        return found

    def encode(self, ids: torch.Tensor) -> Generation:
        found = super().encode(ids)
        found.output[..., -4:-2] += 1 / 3
        return found


def test_boxes_are_judged_in_compose_in_timed_requests_and_in_quality(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(DETECTOR))
    context, document = Context(tmp_path, tmp_path, seconds=5), documents("verify", DETECTOR, Results())
    model = load(document, context)
    honest, cheat = EagerRunner(model), MovesBoxes(model)
    assert honest.logits(torch.zeros(2, 3, 32, 32)).shape == (2, 6, 5 + 1 + 4)

    judged, _ = quality_by_kind.measure(document, context, honest, honest, 0.01)
    assert judged.acceptable
    assert judged.measures[-1].name == "Largest error of a box's coordinate"
    assert "that of a box's coordinate 0 % and 0 %" in judged.sentence
    refused, _ = quality_by_kind.measure(document, context, honest, cheat, 0.01)
    assert not refused.acceptable
    assert (refused.measures[-1].after > 0.2, refused.measures[0].after) == (True, 0)

    plan = Plan(model_digest=document.model.digest, gpu="cpu", runner="eager", dtype="fp32")
    for runner, said in ((honest, ""), (cheat, "Its answer to a timed request differs from the model's")):
        clients = warm_clients(document, runner, 3)
        clients.serve()
        assert judge_served(honest, runner, plan, document, clients)[1].partition(" by ")[0] == said
    known = yardstick(honest, document, "encoder", torch.randn(2, 3, 32, 32))
    trial = Trier(document, known).attempt("moved", plan, lambda: cheat, Times(60, 0.1), lossy=False)
    assert trial.reason.startswith("Its logits differ from the model's by ")
