"""How much further from float32 than today's runner a plan may be: as the workload states, or as bf16 itself is."""

from dataclasses import dataclass, replace

from kernels.model_files import AnswerKind
from workers.documents.model import ModelManifest
from workers.documents.workload import Constraints

NATS_PER_RATE = 0.1
"""Where a workload states the largest rise of the disagreement rate, this many nats for a rise of 1 are allowed."""


@dataclass(frozen=True)
class Tolerances:
    """Largest rises, each at the upper end of its 95 % interval.

    `rate` is of the share of other tokens or classes, or of the cosine distance; `nats` of the mean KL divergence. Both
    are at least `share` of today's own distance from float32.
    """

    rate: float
    nats: float
    share: float = 0.0

    @classmethod
    def stated(cls, rate: float) -> "Tolerances":
        """What a workload allows that states the rise of the rate."""
        return cls(rate, NATS_PER_RATE * rate)

    def beside(self, rate: float, nats: float) -> "Tolerances":
        """These where what runs today is so far from float32 itself, on the same text."""
        return replace(self, rate=max(self.rate, self.share * rate), nats=max(self.nats, self.share * nats))

    @property
    def nats_words(self) -> str:
        """The nats as a decimal fraction, such as `0.00005 nats`."""
        return f"{float(f'{self.nats:.3g}'):.12f}".rstrip("0").rstrip(".") + " nats"


OWN_SHARE = 0.5
"""A plan that is up to 1.5 times as far from float32 as what runs today counts as without loss."""
OF_TRAINED = Tolerances(0.005, 0.00005, OWN_SHARE)
OF_GENERATED = Tolerances(0.01, 0.0004, OWN_SHARE)
"""The defaults for tokens, by the kind of weights: docs/method.md says which measurements of bf16 they come from."""
OF_ANSWERS = Tolerances.stated(0.01)
"""The default for classes and vectors: no trained model that gives them was measured."""


def allowed_rises(constraints: Constraints, model: ModelManifest, answer: AnswerKind) -> Tolerances:
    """What the workload states, else the default for the model's answers and weights."""
    if constraints.max_quality_loss is not None:
        return Tolerances.stated(constraints.max_quality_loss)
    if answer.form != "tokens":
        return OF_ANSWERS
    return OF_GENERATED if model.generated else OF_TRAINED
