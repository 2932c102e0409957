"""Whether what a runner served is the model's, as late as it states, and no faster than its chip could ever be."""

from collections.abc import Sequence
from statistics import median

from kernels.hardware import GPUS
from kernels.measure.roofline import CACHED_BYTES, exceeds_peak
from kernels.model.model_case import case_of_shapes, model_case
from kernels.ops import BYTES
from kernels.plan import Plan
from kernels.proof.served_ids import Judged
from kernels.runners import Runner
from kernels.runners.clients import KEPT_BATCHES, Clients
from kernels.runners.served_answers import judge_answers
from workers.documents.measurement import ServedIds
from workers.documents.stages import StageInput
from workers.measuring.judged_ids import served_ids
from workers.planning.precision import rounding_of, weights_of


def judge_served(
    reference: Runner, runner: Runner, plan: Plan, document: StageInput, clients: Clients, batches: int = KEPT_BATCHES
) -> tuple[ServedIds | None, str]:
    """The ids of so many timed batches, and why what `runner` served to `clients` is not valid; "" where it is.

    Ids and outputs are held against `reference`, those of lower precision also against the runner's own, times against
    the clients' clock and the chip. `runner` is asked for some requests more, so it must still be prepared for the
    workload's requests.
    """
    early = [1, *(objective.n for objective in document.workload.objectives if objective.n)]
    answers = judge_answers(reference, clients, precisions_of(plan), early, batches)
    judged = None if answers.ids is None else judged_ids(answers.ids, len(answers.kept))
    return judged, answers.refusal or too_fast(runner, plan, document, clients) or ""


def precisions_of(plan: Plan) -> tuple[str, str]:
    """The precision of a plan that rounds most, and that of its activations."""
    return rounding_of(plan), plan.dtype


def judged_ids(judged: Judged, batches: int) -> ServedIds:
    """The ids of so many timed `batches` with their verdict."""
    gaps, own = judged.gaps, None if judged.own is judged.gaps else judged.own
    sentence = f"Over {gaps.tokens:,} ids of {batches} timed batches the largest logit gap is {gaps.largest:.2g}."
    if own is not None:
        sentence += f" By the plan's own logits the mean gap is {own.mean:.2g} and the largest {own.largest:.2g}."
    return served_ids(gaps, judged.refusal, sentence, own)


def join_judged(judged: Sequence[ServedIds]) -> ServedIds | None:
    """The judged ids of several processes as one; None of none."""
    if len(judged) < 2:
        return judged[0] if judged else None
    tokens, largest = sum(ids.tokens for ids in judged), max(ids.largest_gap for ids in judged)
    own = [(ids.tokens, ids.own_mean_gap) for ids in judged if ids.own_mean_gap is not None]
    wrong = next((ids.sentence for ids in judged if not ids.acceptable), "")
    return ServedIds(
        tokens=tokens,
        mean_gap=sum(ids.mean_gap * ids.tokens for ids in judged) / tokens,
        largest_gap=largest,
        own_mean_gap=sum(count * mean for count, mean in own) / sum(count for count, _ in own) if own else None,
        own_largest_gap=max((ids.own_largest_gap for ids in judged if ids.own_largest_gap is not None), default=None),
        acceptable=not wrong,
        sentence=wrong
        or f"Over {tokens:,} ids of timed batches in {len(judged)} processes the largest logit gap is {largest:.2g}.",
    )


def too_fast(runner: Runner, plan: Plan, document: StageInput, clients: Clients) -> str | None:
    """A sentence when the median request was served in less time than the chip could ever take, else None."""
    traffic, gpu = document.workload.traffic, GPUS[document.gpu]
    if clients.kind != "decoder" or gpu.gpu_class == "cpu" or not clients.served:
        return None
    shape = (traffic.batch, traffic.prompt_tokens, traffic.output_tokens)
    name, shared = document.model.digest, plan.tensor_parallel_size if plan.tensor_parallel_size > 1 else None
    if shared is None:
        case = model_case(runner.model, name, plan.dtype, *shape)
    else:
        case = case_of_shapes(document.model.config, name, plan.dtype, *shape)
    fewest = min(weights_of(plan), key=lambda name: BYTES[name])
    if case.parameters * BYTES[fewest] < CACHED_BYTES:
        return None
    case = case.with_weights(fewest).model_copy(update={"gpus": shared})
    return exceeds_peak(case, 1e3 * median(batch.service_s for batch in clients.served), gpu)
