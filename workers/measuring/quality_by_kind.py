"""Quality by what the model answers with: tokens, classes or vectors. The comparison is always with float32."""

import time
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from kernels import runners
from kernels.model.inputs import random_input
from kernels.model.loading import answer_of
from kernels.model.sentence_head import SentenceHead
from kernels.model_files import AnswerKind
from kernels.model_files.sentence_transformers import in_folder, sentence_modules
from kernels.runners import Runner
from kernels.runners.eager import Float32Runner
from kernels.server.execution.sizing import free_bytes
from workers.documents import budget
from workers.documents.quality import Quality
from workers.documents.stages import StageInput
from workers.harness.context import Context, StageError
from workers.measuring import answers, quality, recorded_answers, texts
from workers.measuring.allowed_rises import allowed_rises
from workers.measuring.answer_distance import Pool, mean_of_rows
from workers.measuring.recorded_answers import Given, GivesLogits
from workers.measuring.served_model import dtype_of, load, vocabulary
from workers.prediction.precisions import own_precision
from workers.wording.errors import error_sentence

QUALITY_SECONDS = 60.0
"""Quality may take this long even when the stage's time is up, and on a CPU what it needs unless minutes are strict: a
verdict without it is worth nothing."""
PROGRESS_SECONDS = 2.0
"""Between two lines about a comparison: each is an event that the run keeps and its page shows."""
FINISHING_SHARE, FINISHING_SECONDS = 0.1, 60.0
"""What a comparison leaves for what follows: a share of the stage's seconds that are left, and these before a
late stage may be stopped."""
MIN_SEQUENCES = 16
"""The fewest sequences of a text to compare, for an interval over sequences, if half of QUALITY_SECONDS allows."""
NEEDED = {"tokens": quality.MIN_TOKENS, "classes": answers.MIN_ANSWERS, "vectors": answers.MIN_VECTORS}
"""The fewest answers that a comparison needs, by their form."""


def measure(
    document: StageInput, context: Context, before: Runner, after: Runner, *, unverified: bool
) -> tuple[Quality | None, str]:
    """The judgement, or None and why there is none. It raises nothing: a failure costs none of what was measured.

    `unverified`: whether the workload lets the plan's quality be unverified, so that any rise is allowed.
    """
    try:
        reference = _float32(document, context, before)
        given = _given(document, context, reference.model)
        return _judge(document, context, (reference, before, after), given, unverified), ""
    except Exception as error:  # a model may fail on inputs that timing never gave it
        return None, error_sentence(error)


def record(document: StageInput, context: Context, before: Runner, folder: Path) -> str:
    """Saves what float32 and `before` answer to what quality is measured on, as far as `measure` goes. Returns why that
    failed; "" where it did not. It raises nothing, as `measure`.
    """
    try:
        reference = _float32(document, context, before)
        given = _given(document, context, reference.model)
        soon = time.monotonic() + QUALITY_SECONDS / 2
        longest = max(QUALITY_SECONDS, budget.quality_seconds(document.results))
        until = time.monotonic() + _allowed(document, context, longest)

        def keep_going(values: int) -> bool:
            if given.tokens is None:
                return time.monotonic() < until
            return time.monotonic() < (until if values < NEEDED["tokens"] else soon) and values < _wanted(given.tokens)

        recorded_answers.record(given, (reference, before), folder, keep_going)
    except Exception as error:  # a copy in float32 may find no room
        return error_sentence(error)
    return ""


def measure_recorded(
    document: StageInput, context: Context, folder: Path, after: Runner, *, unverified: bool
) -> tuple[Quality | None, str]:
    """As `measure`, beside what `record` has saved."""
    try:
        given, sides = recorded_answers.read_recording(folder, after.model.device)
        return _judge(document, context, (sides[0], sides[-1], after), given, unverified), ""
    except Exception as error:  # a model may fail on inputs that timing never gave it
        return None, error_sentence(error)


def float32_bytes(document: StageInput, model: torch.nn.Module) -> int:
    """The memory of a copy of the model in float32; 0 where its quality is measured without one."""
    return 0 if _without_copy(document, model) else 4 * sum(parameter.numel() for parameter in model.parameters())


def _without_copy(document: StageInput, model: torch.nn.Module) -> bool:
    """Whether float32 needs no copy: the model is served in it; or it reads tokens and its weights are those of the
    files bit by bit, in 16 bits; or several GPUs hold it, and none has room for a copy.
    """
    served = dtype_of(document)
    if served == "fp32" or document.tensor_parallel_size > 1:
        return True
    same = not document.model.generated and own_precision(document.model.config) == served
    return same and model.main_input_name == "input_ids"


def _float32(document: StageInput, context: Context, before: Runner) -> Runner:
    """The model in float32: the one that is served where that is in float32, a copy of its own, or the present
    deployment's in float32 arithmetic.

    The last for models that read tokens: where the weights are those of the files, and where no copy fits beside it.
    A generated model is then compared by its weights as they are served. Raises StageError where a model of images or
    sound has no room for the copy.
    """
    if dtype_of(document) == "fp32":
        return before if before.name == "eager" else runners.runner("eager", before.model)
    if _without_copy(document, before.model):
        return Float32Runner(before.model)
    runners.free()
    reads_tokens = before.model.main_input_name == "input_ids"
    if reads_tokens and float32_bytes(document, before.model) > free_bytes(before.model.device):
        return Float32Runner(before.model)
    try:
        return runners.runner("eager", load(document, context, "fp32"))
    except StageError:
        if not reads_tokens:
            raise
        return Float32Runner(before.model)


def _judge(
    document: StageInput,
    context: Context,
    sides: tuple[GivesLogits, GivesLogits, GivesLogits],
    inputs: Given,
    unverified: bool,
) -> Quality:
    longest = QUALITY_SECONDS
    if not document.workload.constraints.strict_minutes:
        longest = max(longest, budget.quality_seconds(document.results))
    until = time.monotonic() + max(_allowed(document, context, longest), context.seconds_left * (1 - FINISHING_SHARE))
    answer = inputs.answer
    needed = NEEDED[answer.form]
    allowed = None if unverified else allowed_rises(document.workload.constraints, document.model, answer)

    soon, wanted = time.monotonic() + QUALITY_SECONDS / 2, needed
    said_at = 0.0

    def keep_going(done: int, least: int = needed) -> bool:
        nonlocal said_at
        now, most = time.monotonic(), max(wanted, least)
        if now >= said_at + PROGRESS_SECONDS or done >= most:
            context.report_progress(0.7 + 0.25 * min(1, done / most), f"compared {done:,} {answer.form} with float32")
            said_at = now
        return now < (until if done < least else soon) and done < most

    if inputs.tokens is not None:
        tokens = inputs.tokens
        generates, batch = document.model.kind == "decoder", document.workload.traffic.batch
        wanted = _wanted(tokens)
        compared = quality.compare(*sides, tokens, batch, keep_going, generates)
        return quality.judge(*compared, tokens, document.model.generated, allowed)
    pool = _pool(context.model_dir)
    comparison = answers.compare(sides, inputs.batches, answer, inputs.source, keep_going, pool)
    return answers.judge(comparison, document.model.generated, allowed)


def _allowed(document: StageInput, context: Context, seconds: float) -> float:
    """The seconds, or the fewer that are left until FINISHING_SECONDS before the stage is stopped."""
    overtime = (budget.OVERTIME - 1) * max(0.0, document.seconds_left) + budget.OVERTIME_SECONDS
    return min(seconds, context.seconds_left - context.overtime + overtime - FINISHING_SECONDS)


def _wanted(tokens: texts.Tokens) -> int:
    """The tokens that a comparison goes through where time allows."""
    return max(NEEDED["tokens"], min(MIN_SEQUENCES, tokens.written) * tokens.ids.shape[1])


def _given(document: StageInput, context: Context, model: PreTrainedModel) -> Given:
    answer = answer_of(model)
    needed = NEEDED[answer.form]
    if answer.form == "tokens":
        tokens = _texts(document, context, model, needed)
        batches = texts.groups(tokens, document.workload.traffic.batch)
        return Given(answer, batches, tokens.source, tokens)
    return Given(answer, *_inputs(document, context, model, answer, needed), None)


def _pool(model_dir: Path) -> Pool:
    """The modules of sentence-transformers behind the model, where its files name some: texts get those vectors."""
    modules = sentence_modules(in_folder(model_dir))
    if modules is None:
        return mean_of_rows
    head = SentenceHead(modules, model_dir).double()
    return lambda rows: head(rows[None], torch.ones(1, len(rows), dtype=torch.int64))


def _texts(document: StageInput, context: Context, model: torch.nn.Module, least: int) -> texts.Tokens:
    """A batch more than `least` tokens, or more: the workload's text, the model's, what it writes, or random ones."""
    workload, generates = document.workload, document.model.kind == "decoder"
    traffic, words = workload.traffic, vocabulary(model)
    length = texts.sequence_length(traffic, generates, words)
    most = max(least, MIN_SEQUENCES * length if generates else 0) + length * traffic.batch
    writes = generates and not document.model.generated
    until = time.monotonic() + max(_allowed(document, context, QUALITY_SECONDS), context.seconds_left / 2)
    report_once = cache(partial(context.report_progress, 0.7, "the model writes text to be compared on"))

    def keep_going() -> bool:
        report_once()
        return time.monotonic() < until

    return texts.for_quality(model, context.model_dir, workload.quality_text, writes, words, length, most, keep_going)


def _inputs(
    document: StageInput, context: Context, model: PreTrainedModel, answer: AnswerKind, needed: int
) -> tuple[Iterable[torch.Tensor], str]:
    """Batches of text as long as the workload's, or of random images or sound, and where they come from."""
    batch = document.workload.traffic.batch
    if answer.unit in ("images", "recordings"):
        generator = torch.Generator().manual_seed(20)
        drawn = (random_input(model, batch, 1, generator) for _ in range(-(-needed // batch)))
        return drawn, f"random {answer.unit}"
    length = document.workload.traffic.prompt_tokens
    requests = needed if answer.form == "classes" else answers.MIN_REQUESTS
    tokens = _texts(document, context, model, max(needed, requests * length))
    return texts.groups(tokens, batch), tokens.source
