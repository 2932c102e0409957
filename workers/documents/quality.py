"""What verify finds of a plan's quality."""

from typing import Literal

from workers.documents.base import Document
from workers.documents.measurement import Interval


class Measure(Document):
    """One measure of the distance to the float32 model. Largest errors are shares of the largest value."""

    name: str
    before: float
    after: float


class TextScores(Document):
    """Predicting the next token on somebody's text. Intervals are of 95 % and resample whole sequences.

    `source` names the text, `length` is a sequence's in tokens. Accuracy is the share of the `predictions` that are
    right; perplexity is e to the mean surprise in nats. `perplexity_ratio` is after's over before's.
    """

    source: str
    sequences: int
    length: int
    predictions: int
    accuracy_before: Interval
    accuracy_after: Interval
    accuracy_change: Interval
    perplexity_before: Interval
    perplexity_after: Interval
    perplexity_ratio: Interval


class Quality(Document):
    """Against the float32 model: mean KL divergence (nats) and top-1 disagreement rate; vectors have neither.

    `called` is "numerical fidelity" on generated weights. `tokens` counts what was `compared`, of the `needed` that
    proof takes. `change` is the paired interval of after minus before, of the top-1 disagreement rate or, for vectors,
    of the pooled vector's cosine distance; `kl_change` is that of the mean KL divergence. `measures` are those of
    classes and vectors. `source` says where the inputs come from. `text` are the scores of a model that generates,
    where the workload or the model has a text.
    """

    called: Literal["quality", "numerical fidelity"]
    tokens: int
    needed: int = 4096
    compared: Literal["tokens", "answers", "vectors"] = "tokens"
    kl_before: float | None = None
    kl_after: float | None = None
    top1_before: float | None = None
    top1_after: float | None = None
    measures: list[Measure] = []
    change: Interval
    kl_change: Interval | None = None
    source: str = ""
    text: TextScores | None = None
    perplexity_before: float | None = None
    perplexity_after: float | None = None
    acceptable: bool
    sentence: str

    @property
    def summary(self) -> str:
        """Whether it stays within the limit, in a sentence; `sentence` says by which figures."""
        name = self.called.capitalize()
        if self.acceptable and self.tokens < self.needed:
            reached = f"{self.tokens:,} of the {self.needed:,} {self.compared} that this takes were compared"
            return f"{name} is undecided: {reached}."
        return f"{name} {'stays within' if self.acceptable else 'does not stay within'} the limit."
