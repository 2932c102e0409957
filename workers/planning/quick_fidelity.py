"""How far a plan of lower precision is from the model as it is served today, as far as a quick look can say."""

import torch

from kernels.model_files import AnswerKind
from workers.measuring import quality
from workers.measuring.allowed_rises import Tolerances
from workers.measuring.answer_distance import ClassDistance, distance_of, rows_of


def of_tokens(
    exact: torch.Tensor,
    expected: torch.Tensor,
    logits: torch.Tensor,
    allowed: Tolerances | None,
    generates: bool = True,
) -> tuple[str, str]:
    """The gate and a sentence: `logits` beside those of the model as it is served, `expected`, and in float32, `exact`,
    all [sequences, length, vocab].

    `allowed` are the largest rises over the model as it is served; None allows any. `generates` is false for masked
    language models, whose logits are of the token itself.
    """
    before, after = quality.sides(exact, expected, logits)
    change, kl = quality.rises(before, after)
    tokens = expected.shape[0] * expected.shape[1]
    sentence = (
        f"Beside the model as it is served it chooses another {'next ' if generates else ''}token than float32 in "
        f"{change.value:.2%} (at most {change.high:.2%}) more of {tokens} tokens, and its mean KL divergence is larger "
        f"by at most {kl.high:.2g} nats"
    )
    if allowed is not None:
        allowed = allowed.beside(before.disagreement, before.mean_kl)
        if not quality.is_acceptable(change, kl, allowed):
            return "fail", f"{sentence}; {allowed.rate:.2%} and {allowed.nats_words} are allowed."
    return "pass", f"{sentence}."


def of_answers(expected: torch.Tensor, output: torch.Tensor, answer: AnswerKind) -> str:
    """A sentence about classes or vectors beside the model's. They are too few here to be judged; verify does that."""
    distance = distance_of(answer)
    for known, own in zip(*(rows_of(tensor).double() for tensor in (expected, output)), strict=True):
        distance.add(known, own)
    requests, error = len(expected), f"{max(distance.errors):.2g} of the largest"
    mean = sum(distance.distances[0]) / requests
    if isinstance(distance, ClassDistance):
        logit = f"the largest error of a logit is {error}"
        sentence = logit
        if expected.shape[-1] != 1:
            sentence = f"the most likely {answer.noun} differs from the model's in {mean:.2%}, and {logit}"
    else:
        sentence = f"the mean cosine distance to the model's vectors is {mean:.2g}, and the largest error {error} value"
    return f"In a quick look at {requests} {'request' if requests == 1 else 'requests'} {sentence}; verify judges it."
