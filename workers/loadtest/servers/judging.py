"""Answers that were served under load, held against the model's logits by `kernels/proof/served_ids.py`.

Of every ASKED_OF-th request the ids are asked for; up to ANSWERS of each load, drawn by chance, are judged once both
sides have ended. They are judged round-robin over the loads, so that a lack of time leaves out no load.
"""

import itertools
import random
from collections.abc import Mapping, Sequence

from kernels import runners
from kernels.load.exchange import CANCELLED
from kernels.load.generator import LoadTrace
from kernels.proof.served_ids import LogitGaps, answer_gaps, answers_refusal, joined
from workers.documents.measurement import ServedIds
from workers.documents.stages import StageInput
from workers.harness.context import Context
from workers.measuring.judged_ids import served_ids
from workers.measuring.served_model import device_of, load_baseline

ASKED_OF = 4
ANSWERS = 8
SHARE = 0.05
"""The share of the stage's seconds that is kept for judging. One answer of each side is judged even when time is up."""

Answer = tuple[list[int], list[int]]
"""The ids of a prompt and of its answer."""


def sample_answers(sent: LoadTrace) -> list[Answer]:
    """Up to ANSWERS whole answers of a load whose ids are known, in an order drawn by chance."""
    completed = [exchange for exchange in sent.counted if exchange.ended and exchange.ended != CANCELLED]
    answers = [(exchange.prompt_ids, exchange.ids) for exchange in completed if exchange.prompt_ids and exchange.ids]
    return random.Random(len(answers)).sample(answers, min(ANSWERS, len(answers)))


def judge(
    document: StageInput,
    context: Context,
    answers: Mapping[str, Sequence[Sequence[Answer]]],
    allowed: Mapping[str, float],
) -> dict[str, ServedIds]:
    """The finding on each side of `answers` (by load) that has any; the reference is the model as it is served today.

    `allowed`: the mean logit gap that rounding explains on each side. Raises StageError where the model cannot be
    loaded, and what a forward pass raises.
    """
    lines = {
        name: [answer for turn in itertools.zip_longest(*loads) for answer in turn if answer is not None]
        for name, loads in answers.items()
    }
    gaps_of: dict[str, list[LogitGaps]] = {name: [] for name, line in lines.items() if line}
    if not gaps_of:
        return {}
    context.report_progress(0.95, "judging answers under load")
    device, reference = device_of(document.gpu_class), runners.runner("eager", load_baseline(document, context))
    try:
        for answers_of_sides in itertools.zip_longest(*(lines[name] for name in gaps_of)):
            for gaps, answer in zip(gaps_of.values(), answers_of_sides, strict=True):
                if answer is not None and (not gaps or context.seconds_left > 0):
                    prompt, served = answer
                    gaps.append(answer_gaps(reference, prompt, served, device))
    finally:
        reference.close()
        runners.free()
    return {name: _judgement(gaps, allowed[name]) for name, gaps in gaps_of.items()}


def _judgement(gaps: list[LogitGaps], allowed: float) -> ServedIds:
    joint, count = joined(gaps), len(gaps)
    answers = "One of its answers was" if count == 1 else f"{count:,} of its answers were"
    sentence = (
        f"{answers} held against the model's logits: over {joint.tokens:,} ids the largest logit gap is "
        f"{joint.largest:.2g}."
    )
    return served_ids(joint, answers_refusal(gaps, allowed), sentence)
