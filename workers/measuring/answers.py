"""How far the classes or vectors that a runner answers with are from the float32 model's."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kernels.model_files import AnswerKind
from workers.documents.measurement import Interval
from workers.documents.quality import Measure, Quality
from workers.measuring.allowed_rises import Tolerances
from workers.measuring.answer_distance import AnswerDistance, ClassDistance, Pool, distance_of, mean_of_rows, rows_of
from workers.measuring.quality import conclusion, quality_name, upper_end
from workers.measuring.recorded_answers import GivesLogits
from workers.stats.intervals import paired_difference

MIN_ANSWERS = 300
"""Without one difference among so many, fewer than 1 % differ, at 95 % confidence: 0.99 ** 300 < 0.05."""
MIN_VECTORS, MIN_REQUESTS = 4096, 32
"""Vectors, and requests that have them: those of one request are alike, and intervals resample requests."""


def largest_error(loss: float) -> float:
    """The relative error at which the cosine distance is `loss`, for an error at right angles: √(2·loss)."""
    return math.sqrt(2 * loss)


@dataclass
class AnswerComparison:
    """What `compare` gives: of both runners, over so many requests, and rows of so many values each."""

    before: AnswerDistance
    after: AnswerDistance
    answer: AnswerKind
    source: str
    requests: int = 0
    rows: int = 0
    values: int = 0

    @property
    def answers(self) -> int:
        """What proof counts: requests answered with classes, or vectors."""
        return self.requests if self.answer.form == "classes" else self.rows

    @property
    def noun(self) -> Literal["answers", "vectors"]:
        return "answers" if self.answer.form == "classes" else "vectors"

    @property
    def needed(self) -> int:
        if self.answer.form == "classes":
            return MIN_ANSWERS
        return max(MIN_VECTORS, MIN_REQUESTS * self.rows // max(1, self.requests))


@torch.no_grad()
def compare(
    runners: tuple[GivesLogits, GivesLogits, GivesLogits],
    inputs: Iterable[torch.Tensor],
    answer: AnswerKind,
    source: str,
    keep_going: Callable[[int, int], bool],
    pool: Pool = mean_of_rows,
) -> AnswerComparison:
    """Compares batches of main inputs while `keep_going(answers so far, needed)`; at least one."""
    compared = AnswerComparison(distance_of(answer, pool), distance_of(answer, pool), answer, source)
    for batch in inputs:
        if compared.answers and not keep_going(compared.answers, compared.needed):
            break
        logits = {runner: rows_of(runner.logits(batch)).double().cpu() for runner in dict.fromkeys(runners)}
        expected, *outputs = (logits[runner] for runner in runners)
        for row, reference in enumerate(expected):
            for side, tensor in zip((compared.before, compared.after), outputs, strict=True):
                side.add(reference, tensor[row])
        compared.requests += len(expected)
        compared.rows += expected[..., 0].numel()
        compared.values = expected.shape[-1]
    return compared


def judge(compared: AnswerComparison, generated: bool, allowed: Tolerances | None) -> Quality:
    """The verdict on quality: acceptable when no distance and no KL divergence rises by more than is `allowed`, at the
    upper end of its interval, and no largest error by more than `largest_error` of the rate.

    `allowed` is None where the workload allows unverified quality: then it is enough that all values are finite.
    """
    before, after = compared.before, compared.after
    changes = [paired_difference(*pair) for pair in zip(before.distances, after.distances, strict=True)]
    rises = [error_after - error_before for error_before, error_after in zip(before.errors, after.errors, strict=True)]
    facts: dict[str, Any] = {}
    if isinstance(before, ClassDistance) and isinstance(after, ClassDistance):
        facts = {"kl_before": _mean(before.kl), "kl_after": _mean(after.kl)}
        facts |= {"top1_before": _mean(before.disagreed), "top1_after": _mean(after.disagreed)}
        facts["kl_change"] = paired_difference(before.kl, after.kl)
    kl_change: Interval | None = facts.get("kl_change")
    acceptable = not after.non_finite
    if allowed is not None:
        acceptable &= max(change.high for change in changes) <= allowed.rate
        acceptable &= kl_change is None or kl_change.high <= allowed.nats
        acceptable &= max(rises) <= largest_error(allowed.rate)
    called = quality_name(generated)
    return Quality(
        called=called,
        tokens=compared.answers,
        needed=compared.needed,
        compared=compared.noun,
        **facts,
        change=changes[0],
        source=compared.source,
        measures=_measures(compared),
        acceptable=acceptable,
        sentence=_sentence(compared, called, kl_change, allowed, acceptable),
    )


def _measures(compared: AnswerComparison) -> list[Measure]:
    before, after = compared.before, compared.after
    if isinstance(before, ClassDistance) and isinstance(after, ClassDistance):
        named = [("Largest error of a logit", before.errors[0], after.errors[0])]
        if compared.values > 1:
            differs = f"Another {compared.answer.noun} is the most likely"
            named.insert(0, (differs, _mean(before.disagreed), _mean(after.disagreed)))
            named.insert(1, ("KL divergence, nats", _mean(before.kl), _mean(after.kl)))
    else:
        names = ["Cosine distance of the pooled vector", "Cosine distance of a token's vector"]
        names += ["Largest error of a pooled value", "Largest error of a token's value"]
        names += ["Largest error of a box's coordinate"] if compared.answer.boxes else []
        sides = ([*map(_mean, side.distances), *side.errors] for side in (before, after))
        named = list(zip(names, *sides, strict=True))
    return [Measure(name=name, before=value_before, after=value_after) for name, value_before, value_after in named]


def _sentence(
    compared: AnswerComparison, called: str, kl_change: Interval | None, allowed: Tolerances | None, acceptable: bool
) -> str:
    noun = "sequences" if compared.answer.unit == "embeddings" else compared.answer.unit
    over = f"{called.capitalize()} over {compared.requests:,} {noun} ({compared.source})"
    may = ""
    if allowed is not None:
        of_classes = compared.answer.form == "classes"
        share = f"{100 * allowed.rate:g} % of answers" if of_classes else f"{allowed.rate:g} of cosine distance"
        share = "" if compared.values == 1 else share
        share += f", {allowed.nats_words}" if share and kl_change is not None else ""
        error = f"{100 * largest_error(allowed.rate):.2g} % of the largest value"
        may = f"rises of at most {f'{share} and ' if share else ''}{error} are allowed"
    shortfall, few = "", compared.answers < compared.needed
    if few:
        shortfall = f" {compared.answers:,} of the {compared.needed:,} {compared.noun} that this takes were reached."
    if compared.after.non_finite:
        shortfall += f" {compared.after.non_finite:,} {compared.noun} after are no numbers."
    return f"{over}: {_findings(compared, kl_change)}; {conclusion(may, acceptable, few)}{shortfall}"


def _findings(compared: AnswerComparison, kl_change: Interval | None) -> str:
    before, after = compared.before, compared.after
    if compared.answer.form == "vectors":
        pooled, token = (
            f"{_mean(a):.2g} and {_mean(b):.2g}" for a, b in zip(before.distances, after.distances, strict=True)
        )
        errors = " and ".join(f"{100 * max(side.errors[:2]):.2g} %" for side in (before, after))
        boxes = " and ".join(f"{100 * error:.2g} %" for side in (before, after) for error in side.errors[2:])
        return (
            f"the cosine distance to the float32 model's vectors is {pooled} before and after for a request's "
            f"pooled vector, {token} for single tokens; the largest error is {errors} of the largest value"
            + (f", that of a box's coordinate {boxes}" if boxes else "")
        )
    logits = " and ".join(f"{100 * side.errors[0]:.2g} %" for side in (before, after))
    error = f"the largest error of a logit is {logits} of the largest"
    if compared.values == 1 or not isinstance(before, ClassDistance) or not isinstance(after, ClassDistance):
        return f"{error} before and after"
    risen = upper_end(f"{kl_change.high:+.2g}", "nats") if kl_change else ""
    return (
        f"the most likely {compared.answer.noun} differs from the float32 model's in "
        f"{100 * _mean(before.disagreed):.2f} % of cases before and {100 * _mean(after.disagreed):.2f} % after, mean "
        f"KL divergence {_mean(before.kl):.2g} and {_mean(after.kl):.2g} nats, which {risen} by its 95 % interval; "
        f"{error}"
    )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
