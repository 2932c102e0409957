"""The plan of composed kernels: the cases that explore tries for it, and the candidates that it takes."""

import time
from collections.abc import Sequence
from typing import Any

from kernels import registry
from kernels.hardware import GPUS
from kernels.model import decoder
from kernels.model import prompt_ops as defaults
from kernels.model.experts import has_experts
from kernels.model.layer_ops import BatchShape, LayerOps
from kernels.model.layer_weights import is_fp8
from kernels.ops import Case, GroupedCase, case_from
from kernels.plan import Plan, PlannedOp
from kernels.quant.formats import EXPERTS
from kernels.quant.quantised_matrix import stored_form
from kernels.tune.plan_search import ChosenOps, Option, PassTimer, planned_op, search_plan, usable
from workers.documents.measurement import Candidate
from workers.documents.stages import StageInput
from workers.measuring.journal import Journal
from workers.measuring.served_model import dtype_of
from workers.planning.search_watch import SearchWatch

VARIANT, MEGAKERNEL = "kernels", "megakernel"
LOSSY_VARIANTS = {"kernels_int8": ("int8",), "kernels_mxfp4": ("mxfp4",), "kernels_fp8": ("fp8", "nvfp4", "int4")}
"""The plans of composed kernels that lower precision, and the precisions of the variants that each may take. int8 loses
about as little as bf16 itself, so its plan has no other; experts in MXFP4 lose nothing where they were stored so."""
TUNING_SHARE, TUNING_SECONDS = 0.25, 10.0
"""Timing runners-up in the whole model takes at most this share of compose's seconds, and this many seconds."""
DEFAULTS_SECONDS = 60.0
"""What tuning every operation takes where explore tried none of a decode step: 64 s of Llama-3.1-8B on an H200."""


def composes(document: StageInput, model: Any) -> bool:
    """Whether a plan of composed variants can be made for the model, which may be a skeleton."""
    return _may_compose(document) and decoder.refusal(model) is None


def lossy_variants(model: Any) -> list[str]:
    """The names of LOSSY_VARIANTS that are tried for a model: MXFP4 only where it has experts."""
    return [name for name in LOSSY_VARIANTS if name != "kernels_mxfp4" or has_experts(model.config)]


def partly_stored(model: Any, stored: str) -> str:
    """Why a plan in the `stored` precision would round some matrices of the model's layers, as a sentence; or ""."""
    if stored != "fp8" or decoder.refusal(model) or is_fp8(decoder.Decoder(model).layers):
        return ""
    return "Not every matrix of its layers was stored in fp8 with a scale for a tensor or a row."


def why_unrounded(model: Any, name: str, stored: str = "") -> str:
    """Why the model's weights are not rounded in the plan of this name, as a sentence; "" where they are. `stored` is
    the precision of its own codes, where the workload allows it for that alone.
    """
    if stored in LOSSY_VARIANTS[name] and (reason := partly_stored(model, stored)):
        return reason
    if set(LOSSY_VARIANTS[name]) <= set(EXPERTS) or not has_experts(model.config):
        return ""
    return "Weights of a mixture of experts are held in no lower precision but int8 and MXFP4."


def _may_compose(document: StageInput) -> bool:
    """Whether such plans are made for the workload and its GPU class, whatever the model."""
    on_one = document.gpu_class != "cpu" and document.tensor_parallel_size == 1
    return on_one and VARIANT not in document.workload.constraints.exclude


def cases(document: StageInput) -> dict[Case, float]:
    """Every case that a kernels plan may consist of, and how often one request runs it; {} where there is none."""
    if document.model.kind != "decoder" or not _may_compose(document):
        return {}
    from kernels.model import loading  # it imports transformers

    model = loading.skeleton(document.model.config, dtype_of(document))
    return layer_ops(document, decoder.Decoder(model)).cases() if composes(document, model) else {}


def prompt_cases(document: StageInput) -> dict[Case, float]:
    """The cases of `cases` that a prompt's pass runs, and the head's."""
    shape = _shape(document)
    return {case: count for case, count in cases(document).items() if defaults.is_of_prompts(case, shape)}


def tunes_defaults(document: StageInput) -> bool:
    """Whether a plan of composed variants tunes its operations itself: explore has tried none of a decode step."""
    explored = document.results.explore.candidates if document.results.explore else []
    shape = _shape(document)
    return all(defaults.is_of_prompts(case_from.validate_python(candidate.case), shape) for candidate in explored)


def layer_ops(document: StageInput, model: decoder.Decoder) -> LayerOps:
    return LayerOps(model, _shape(document))


def _shape(document: StageInput) -> BatchShape:
    traffic = document.workload.traffic
    return BatchShape(traffic.batch, traffic.prompt_tokens, traffic.output_tokens)


def choose_ops(
    document: StageInput,
    model: decoder.Decoder,
    candidates: Sequence[Candidate],
    seconds: float,
    journal: Journal,
    lower: Sequence[str],
) -> ChosenOps:
    """The candidates that make the fastest passes; lossy ones among them only in the `lower` precisions.

    Without candidates for a decode step, as where explore expected another plan to be taken, ops are tuned here.
    """
    layer, watch = layer_ops(document, model), SearchWatch(journal)
    if tunes_defaults(document):
        from kernels.runners.defaults import default_ops  # it imports transformers

        return default_ops(model, layer.traffic, lower[0] if lower else "")
    timer = pass_timer(document, model, layer.traffic, watch)
    end = time.monotonic() + min(TUNING_SECONDS, TUNING_SHARE * seconds)
    chosen = search_plan(layer, options(candidates, lower), timer, lambda: time.monotonic() < end)
    chosen.notes += watch.notes
    return chosen


def pass_timer(
    document: StageInput, model: decoder.Decoder, traffic: BatchShape, watch: SearchWatch
) -> PassTimer | None:
    """What times whole passes; None on a CPU."""
    from kernels.runners.pass_timer import GraphTimer  # it imports transformers

    return None if document.gpu_class == "cpu" else GraphTimer(model, GPUS[document.gpu], traffic, watch)


def runner_options(ops: Sequence[PlannedOp]) -> dict[str, Any]:
    """The runner's options for the ops of a plan: the precision that all lower, where it is int8, fp8 or mxfp4."""
    lowered = {op.case["weights"] for op in ops if registry.variant(op.variant).lossy}
    return {"weights": lowered.pop()} if lowered in ({"int8"}, {"fp8"}, {"mxfp4"}) else {}


def in_stored_form(plan: Plan, model: Any) -> Plan:
    """The plan with its precision in the form that most of the model's matrices were stored in."""
    if "weights" not in plan.options or decoder.refusal(model):
        return plan
    weights = stored_form(plan.options["weights"], [layer.o for layer in decoder.Decoder(model).layers])
    return plan.model_copy(update={"options": plan.options | {"weights": weights}})


def prompt_ops(document: StageInput, model: Any, ops: Sequence[PlannedOp]) -> list[PlannedOp]:
    """The ops of a megakernel's prompts: those of a kernels plan's `ops` that prompts run, else the defaults.

    [] for a model that the compact decoder, and so the megakernel, cannot run.
    """
    if decoder.refusal(model):
        return []
    layer = layer_ops(document, decoder.Decoder(model))
    exclude = document.workload.constraints.exclude
    gpu, planned = GPUS[document.gpu], defaults.of_prompts(ops, layer.traffic)
    return [*planned, *defaults.last_rows(layer, gpu, exclude)] if planned else defaults.prompt_ops(layer, gpu, exclude)


def options(candidates: Sequence[Candidate], lower: Sequence[str]) -> dict[str, list[Option]]:
    """Timed candidates that passed, fastest first, lossy ones in `lower`, by the case in the model's precision."""
    by_case: dict[str, list[Option]] = {}
    for candidate in candidates:
        variant = registry.variant(candidate.variant)
        if (
            candidate.gate != "pass"
            or candidate.ms is None
            or (variant.lossy and candidate.case.get("weights") not in lower)
        ):
            continue
        case = case_from.validate_python(candidate.case)
        if not usable(case, candidate.variant):
            continue
        op = planned_op(case, candidate.variant, candidate.params, candidate.id)
        by_case.setdefault(own_precision(case).key, []).append(Option(op, candidate.ms))
    return {key: sorted(group, key=lambda option: option.ms) for key, group in by_case.items()}


def own_precision(case: Case) -> Case:
    """The case with its weights in the precision of its activations."""
    if isinstance(case, GroupedCase):
        return case.model_copy(update={"weights": None})
    return (
        case.model_copy(update={"weights": case.dtype}) if hasattr(case, "weights") and hasattr(case, "dtype") else case
    )


def label(chosen: ChosenOps) -> str:
    """`kernels`, or `kernels_fp8` by the precision of its lossy weights."""
    lower = {op.case["weights"]: None for op in chosen.ops if registry.variant(op.variant).lossy}
    return "_".join([VARIANT, *lower])
