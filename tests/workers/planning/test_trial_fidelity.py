"""What compose says of a plan of lower precision, beside the model as it is served today."""

import pytest
import torch

from kernels.model_files import AnswerKind
from workers.measuring.allowed_rises import OF_TRAINED, Tolerances
from workers.planning import trials


def test_lossy_plan_that_disagrees_too_often_fails():
    logits = torch.randn(1, 400, 8)
    gate, fidelity = trials.token_fidelity(logits, logits, logits, Tolerances.stated(0.01))
    assert (gate, "in 0.00 % (at most 0.00 %) more of 400 tokens" in fidelity) == ("pass", True)
    changed = logits.clone()
    changed[0, :8] = -logits[0, :8]
    gate, reason = trials.token_fidelity(logits, logits, changed, Tolerances.stated(0.01))
    assert gate == "fail"
    assert "another next token than float32 in 2.08 % (at most " in reason
    assert "more of 400 tokens" in reason
    assert "; 1.00 % and 0.001 nats are allowed" in reason
    assert trials.token_fidelity(logits, logits, changed, None)[0] == "pass"
    assert "another token than" in trials.token_fidelity(logits, logits, changed, None, generates=False)[1]


def test_a_plan_may_lose_half_as_much_again_as_what_is_served():
    """Beside what is served, which differs from float32 itself; by much more than the floor for what is exact."""
    draws = torch.Generator().manual_seed(0)
    exact, served, plan = (0.1 * torch.randn(2, 2048, 8, generator=draws) for _ in range(3))
    exact *= 20
    for share, gate in ((1.0, "pass"), (1.15, "pass"), (1.4, "fail")):
        assert trials.token_fidelity(exact, exact + served, exact + share * plan, OF_TRAINED)[0] == gate
    assert trials.token_fidelity(exact, exact, exact + plan, OF_TRAINED)[0] == "fail"


@pytest.mark.parametrize(
    ("answer", "shape", "said"),
    [
        (
            AnswerKind("sequences", "classes"),
            (4, 3),
            "4 requests the most likely class differs from the model's in 25.0",
        ),
        (AnswerKind("sequences", "classes"), (4, 1), "4 requests the largest error of a logit is 2 of the largest"),
        (AnswerKind("embeddings", "vectors"), (4, 5, 16), "cosine distance to the model's vectors is 0.5"),
    ],
)
def test_a_lossy_plan_of_a_model_without_tokens_is_told_by_its_answers(answer, shape, said):
    output = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    output[0] = 10
    output[0, ..., :1] += 1
    changed = output.clone()
    changed[0] = -output[0]
    sentence = trials.answer_distance(output, changed, answer)
    assert said in sentence
    assert "token" not in sentence
    assert sentence.endswith("; verify judges it.")
