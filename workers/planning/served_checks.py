"""Whether what a runner served is the model's, and no faster than its chip could ever be."""

from collections.abc import Sequence
from statistics import median

from kernels.engine import Runner
from kernels.engine.clients import Clients, KeptBatch
from kernels.engine.model_case import case_of_shapes, model_case
from kernels.hardware import GPUS
from kernels.measure.roofline import CACHED_BYTES, exceeds_peak
from kernels.ops import BYTES
from kernels.plan import Plan
from kernels.proof.served_ids import joined, logit_gaps
from workers.documents.measurement import ServedIds
from workers.documents.stages import StageInput
from workers.measuring.judged_ids import served_ids
from workers.planning.precision import weights_of


def judge_ids(reference: Runner, served: Sequence[KeptBatch], allowed: float) -> ServedIds | None:
    """The ids of timed requests, teacher-forced through `reference`; None where no ids were served.

    `allowed` is the mean logit gap that rounding explains (`kernels.proof.served_ids`).
    """
    judged = [logit_gaps(reference, batch.prompt, batch.tokens) for batch in served if batch.tokens]
    if not judged:
        return None
    gaps = joined(judged)
    said = f"Over {gaps.tokens:,} ids of {len(judged)} timed batches the largest logit gap is {gaps.largest:.2g}."
    return served_ids(gaps, allowed, said)


def of_processes(judged: Sequence[ServedIds]) -> ServedIds | None:
    """The judged ids of several processes as one; None of none."""
    if len(judged) < 2:
        return judged[0] if judged else None
    tokens, largest = sum(each.tokens for each in judged), max(each.largest_gap for each in judged)
    wrong = next((each.sentence for each in judged if not each.acceptable), "")
    return ServedIds(
        tokens=tokens,
        mean_gap=sum(each.mean_gap * each.tokens for each in judged) / tokens,
        largest_gap=largest,
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
    name, shared = document.model.digest, plan.gpus if plan.gpus > 1 else None
    if shared is None:
        case = model_case(runner.model, name, plan.dtype, *shape)
    else:
        case = case_of_shapes(document.model.config, name, plan.dtype, *shape)
    fewest = min(weights_of(plan), key=lambda name: BYTES[name])
    lighter = case.bytes_per_token - case.parameters * (BYTES[plan.dtype] - BYTES[fewest])
    if case.parameters * BYTES[fewest] < CACHED_BYTES:
        return None
    case = case.model_copy(update={"weights": fewest, "bytes_per_token": lighter, "gpus": shared})
    return exceeds_peak(case, 1e3 * median(each.service_s for each in clients.served), gpu)
