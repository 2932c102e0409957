"""Quality by what the model answers with: tokens, classes or vectors. The comparison is always with float32."""

import time
from collections.abc import Iterable

import torch

from kernels import engine
from kernels.engine import Runner
from kernels.model_files import Answer
from workers.documents.stages import Quality, StageInput
from workers.harness.context import Context, StageError
from workers.measuring import answers, quality, served_model, texts

QUALITY_SECONDS = 60.0
"""Quality may take this long even when the stage's time is up: a verdict without it is worth nothing."""
FINISHING_SHARE = 0.1
LONGEST_SEQUENCE = 1024
DECODED_TOKENS = 32
"""Quality is measured on sequences of at most LONGEST_SEQUENCE tokens, of which DECODED_TOKENS are decoded singly."""
NEEDED = {"tokens": quality.LEAST_TOKENS, "classes": answers.LEAST_ANSWERS, "vectors": answers.LEAST_VECTORS}
"""How many a comparison takes, by the form of what is compared."""


def measure(
    document: StageInput, context: Context, before: Runner, after: Runner, largest_loss: float | None
) -> tuple[Quality | None, str]:
    """The judgement, or None and why there is none. It raises nothing: a failure costs none of what was measured.

    `largest_loss` is what the workload allows; None where quality may stay unverified.
    """
    try:
        reference = served_model.load(document, context, "fp32")
    except StageError:
        return None, "the float32 model does not fit beside the others"
    try:
        return _judge(document, context, engine.runner("eager", reference), before, after, largest_loss), ""
    except Exception as error:  # a model may fail on inputs that timing never gave it
        lines = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {lines[0][:200].rstrip('.') if lines else 'no message'}"


def _judge(
    document: StageInput,
    context: Context,
    reference: Runner,
    before: Runner,
    after: Runner,
    largest_loss: float | None,
) -> Quality:
    until = time.monotonic() + max(QUALITY_SECONDS, context.seconds_left * (1 - FINISHING_SHARE))
    answer = served_model.answer_of(reference.model)
    needed = NEEDED[answer.form]

    def goes_on(done: int) -> bool:
        context.say(0.7 + 0.25 * min(1, done / needed), f"compared {done:,} {answer.form} with float32")
        return done < needed and time.monotonic() < until

    if answer.form == "tokens":
        tokens = _texts(document, context, reference.model, needed)
        generates, batch = document.model.kind == "decoder", document.workload.traffic.batch
        compared = quality.compare(reference, before, after, tokens, batch, goes_on, generates)
        return quality.judge(*compared, tokens, document.model.generated, largest_loss)
    inputs, source = _inputs(document, context, reference.model, answer, needed)
    found = answers.compare((reference, before, after), inputs, answer, source, goes_on)
    return answers.judge(found, document.model.generated, largest_loss)


def _texts(document: StageInput, context: Context, model: torch.nn.Module, least: int) -> texts.Tokens:
    """A batch more than `least` tokens of the model's own text, of what it writes, or at random."""
    traffic, generates = document.workload.traffic, document.model.kind == "decoder"
    decoded = min(DECODED_TOKENS, traffic.output_tokens) if generates else 0
    length = min(LONGEST_SEQUENCE, traffic.prompt_tokens + decoded)
    writes = generates and not document.model.generated
    words, most = served_model.vocabulary(model), least + length * traffic.batch
    return texts.for_quality(model, context.model_dir, writes, words, length, most)


def _inputs(
    document: StageInput, context: Context, model: torch.nn.Module, answer: Answer, needed: int
) -> tuple[Iterable[torch.Tensor], str]:
    """Batches of text as long as the workload's, or of random images or sound, and where they come from."""
    batch = document.workload.traffic.batch
    if answer.unit in ("images", "recordings"):
        generator = torch.Generator().manual_seed(20)
        drawn = (served_model.drawn(model, batch, 1, generator) for _ in range(-(-needed // batch)))
        return drawn, f"random {answer.unit}"
    length = min(LONGEST_SEQUENCE, document.workload.traffic.prompt_tokens)
    tokens = _texts(document, context, model, needed * (length if answer.form == "classes" else 1))
    return texts.groups(tokens, batch), tokens.source
