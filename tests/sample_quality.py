"""What verify found of the sample run's quality."""

from workers.documents.measurement import Interval
from workers.documents.quality import Quality, TextScores

TEXT_SCORES = TextScores(
    source="the workload's text", sequences=22, length=192, predictions=22 * 191,
    accuracy_before=Interval(value=0.4213, low=0.4102, high=0.4331),
    accuracy_after=Interval(value=0.4207, low=0.4098, high=0.4325),
    accuracy_change=Interval(value=-0.0006, low=-0.0014, high=0.0003),
    perplexity_before=Interval(value=12.31, low=11.78, high=12.94),
    perplexity_after=Interval(value=12.34, low=11.8, high=12.97),
    perplexity_ratio=Interval(value=1.0024, low=1.0004, high=1.0045),
)  # fmt: skip

QUALITY = Quality(
    called="numerical fidelity", tokens=4096, kl_before=0.0011, kl_after=0.0012, top1_before=0.012,
    top1_after=0.0121, change=Interval(value=0.0001, low=-0.0004, high=0.0006), source=TEXT_SCORES.source,
    text=TEXT_SCORES, perplexity_before=TEXT_SCORES.perplexity_before.value,
    perplexity_after=TEXT_SCORES.perplexity_after.value, acceptable=True,
    sentence="Numerical fidelity is unchanged within its interval.",
)  # fmt: skip
