"""What the words of a report mean, for readers who have nothing but the report."""

import re
from typing import NamedTuple


class GlossaryEntry(NamedTuple):
    """A word as the list calls it, how a text uses it (a regular expression), and what it means.

    `without_tokens` is what it means of a model that gives no tokens, one after another, where that differs.
    """

    name: str
    used: str
    meaning: str
    without_tokens: str = ""


GLOSSARY = (
    GlossaryEntry("SLA", r"\bSLA\b", "Service-level agreement: the promises under Objectives."),
    GlossaryEntry("TTFT", r"\bTTFT\b", "Time to first token: from sending a request to its first token."),
    GlossaryEntry("TTF-N", r"\bTTF\d+\b", "Time to the first N tokens, such as 64 in TTF64."),
    GlossaryEntry(
        "TPOT", r"\bTPOT\b", "Time per output token: the mean gap between the tokens of a request after the first."
    ),
    GlossaryEntry("ITL", r"\bITL\b", "Inter-token latency: a single gap between two tokens."),
    GlossaryEntry(
        "E2E",
        r"\bE2E\b",
        "End to end: from sending a request to the last token of its answer.",
        "End to end: from sending a request to its answer.",
    ),
    GlossaryEntry(
        "p50, p95, …", r"\bp\d\d\b", "Percentiles: p50 is the median, and 95 of 100 requests take at most p95."
    ),
    GlossaryEntry("95 % interval", r"95 % interval", "95 of 100 such intervals contain the true value."),
    GlossaryEntry(
        "Needed",
        r">Needed<",
        "How many requests, none of them beyond the limit, show at 99 % confidence that a percentile holds.",
    ),
    GlossaryEntry(
        "Process",
        r">Process<",
        "One start of the program that measures both sides; a fresh one shares only the machine with the others.",
    ),
    GlossaryEntry(
        "Noise floor",
        r"noise floor",
        "How far the plan differs from itself; a difference that is smaller counts as none.",
    ),
    GlossaryEntry(
        "KL divergence",
        r"KL divergence",
        "How far two distributions over the next token lie apart, in nats; 0 where they are equal.",
        "How far two distributions over the model's possible answers lie apart, in nats; 0 where they are equal.",
    ),
    GlossaryEntry(
        "Top-1 disagreement",
        r"[Tt]op-1 disagreement",
        "How often the likeliest next token is another than that of the model in float32.",
        "How often the likeliest answer is another than that of the model in float32.",
    ),
    GlossaryEntry(
        "Perplexity", r">Perplexity<", "How many tokens the model finds as likely as the right one; lower is better."
    ),
    GlossaryEntry("Prefill, decode", r">(prefill|decode)<", "Reading the prompt, and making one token after another."),
    GlossaryEntry("Kernel, launch", r"\blaunch(es)?\b", "A program that runs on the GPU, and one start of it."),
    GlossaryEntry("Megakernel", r"megakernel", "One kernel that makes all tokens of an answer after the first."),
    GlossaryEntry("CUDA graph", r"CUDA graph", "Many launches that are recorded once and started together."),
    GlossaryEntry(
        "Floor", r"[Ff]loor,? ms|roofline floor", "The least time that this device's measured rates allow for the work."
    ),
    GlossaryEntry("Duty cycle", r">Duty cycle<", "The share of the paid hour in which the device serves."),
    GlossaryEntry(
        "Measured, modelled, stated",
        r"basis",
        "Measured in this run, computed from a model, or told by the customer or the price book.",
    ),
)


def used_in(page: str, generates: bool) -> list[tuple[str, str]]:
    """The words that the HTML uses, each with its meaning in a report of a model that `generates` tokens, or not."""
    used = [word for word in GLOSSARY if re.search(word.used, page)]
    return [(word.name, word.meaning if generates else word.without_tokens or word.meaning) for word in used]
