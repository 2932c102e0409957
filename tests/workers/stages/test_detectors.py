"""Models that find objects in images, and that label pixels: boxes and labels are judged."""

import torch

from kernels.runners import Generation
from kernels.runners.eager import EagerRunner
from tests.workers.conftest import context_of, plan_of
from tests.workers.stages.kinds import VIT, documents
from workers.documents.stages import Results
from workers.measuring import quality_by_kind
from workers.measuring.alternation import warm_clients
from workers.measuring.served_model import load
from workers.planning.served_checks import judge_served
from workers.planning.trials import TrialRunner, TrialTimeouts, reference_logits

DETECTOR = VIT | {"model_type": "yolos", "architectures": ["YolosForObjectDetection"], "num_hidden_layers": 2}
DETECTOR |= {"image_size": [32, 32], "num_detection_tokens": 6}
SEGMENTER = DETECTOR | {"model_type": "dpt", "architectures": ["DPTForSemanticSegmentation"]}
SEGMENTER |= {"backbone_out_indices": [0, 1], "neck_hidden_sizes": [8, 8], "reassemble_factors": [2, 1]}
SEGMENTER |= {"fusion_hidden_size": 16, "use_auxiliary_head": False}


class MovesBoxes(EagerRunner):
    """Its logits of the classes are honest; the boxes are all moved by a third of the image."""

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        result = super().logits(ids)
        result[..., -4:-2] += 1 / 3
        return result

    def encode(self, ids: torch.Tensor) -> Generation:
        result = super().encode(ids)
        result.output[..., -4:-2] += 1 / 3
        return result


def prepared(folder, config, cheat):
    """The context, the document, and an honest and a cheating runner of the model."""
    context, document = context_of(config, folder, 5), documents("verify", config, Results())
    model = load(document, context)
    return context, document, EagerRunner(model), cheat(model)


def test_boxes_are_judged_in_compose_in_timed_requests_and_in_quality(tmp_path):
    context, document, honest, cheat = prepared(tmp_path, DETECTOR, MovesBoxes)
    assert honest.logits(torch.zeros(2, 3, 32, 32)).shape == (2, 6, 5 + 1 + 4)

    judged, _ = quality_by_kind.measure(document, context, honest, honest, unverified=False)
    assert judged.acceptable
    assert judged.measures[-1].name == "Largest error of a box's coordinate"
    refused, _ = quality_by_kind.measure(document, context, honest, cheat, unverified=False)
    assert not refused.acceptable
    assert (refused.measures[-1].after > 0.2, refused.measures[0].after) == (True, 0)

    plan = plan_of(document)
    for runner, said in ((honest, ""), (cheat, "Its answer to a timed request differs from the model's")):
        clients = warm_clients(document, runner, 3, {})
        clients.serve()
        assert judge_served(honest, runner, plan, document, clients)[1].partition(" by ")[0] == said
    known = reference_logits(honest, document, "encoder", torch.randn(2, 3, 32, 32))
    trial = TrialRunner(document, known).attempt("moved", plan, lambda: cheat, TrialTimeouts(60, 0.1), lossy=False)
    assert trial.reason.startswith("Its logits differ from the model's by ")
    lower = TrialRunner(document, known).attempt("lower", plan, lambda: honest, TrialTimeouts(60, 0.1), lossy=True)
    assert "at 2 requests the mean cosine distance to the model's vectors is 0" in lower.reason


class LabelsARow(EagerRunner):
    """Each pixel of an image's first row has another label than the model's; all others are the model's."""

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        result = super().logits(ids)
        result[:, 0] = result[:, 0].roll(1, -1)
        return result


def test_the_labels_of_pixels_are_judged_image_by_image(tmp_path):
    context, document, honest, cheat = prepared(tmp_path, SEGMENTER, LabelsARow)
    assert honest.logits(torch.zeros(2, 3, 32, 32)).shape == (2, 16, 16, 5)
    judged, _ = quality_by_kind.measure(document, context, honest, honest, unverified=False)
    assert (judged.acceptable, judged.tokens, judged.compared) == (True, 300, "answers")
    assert "class of a pixel differs from the float32 model's in 0.00 %" in judged.sentence
    refused, _ = quality_by_kind.measure(document, context, honest, cheat, unverified=False)
    assert not refused.acceptable
    assert refused.top1_after == 1 / 16
