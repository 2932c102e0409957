"""A workload from its document: whether it fits its model and the GPUs, and its row."""

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from kernels import registry
from kernels.hardware import GPUS
from kernels.model_files import longest_sequence
from kernels.ops import BYTES
from workbench.api import quota
from workbench.api.sentences import invalid
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.intake.models import Model, Recording, Workload
from workbench.intake.services import endpoints, recordings
from workbench.intake.services.catalogue import model_for
from workbench.intake.services.ceilings import known_ceilings
from workbench.short_text import check_short_text
from workers.documents.gpu_class import gpus_of, single_gpu_class
from workers.documents.model import ModelManifest
from workers.documents.workload import TOKEN_METRICS
from workers.documents.workload import Workload as WorkloadDocument
from workers.prediction import memory
from workers.prediction.feasibility import COMPILED_ON_ONE, VLLM_GENERATES, AvailableGpus, impossible
from workers.wording.serving import outside_vllm

GIB = 2**30
EXACT = ("bf16", "fp16", "fp32")
"""Precisions of a model that is not quantised."""
TOKENIZER = "tokenizer.json"
MIN_LIMIT, MAX_LIMIT = 1e-6, 1e9
"""The bounds of a promise's limit, in its unit: ms, tokens or images per second, or USD for a million of them."""


def create_workload(organisation: Any, user: Any, document: WorkloadDocument, like: Workload | None = None) -> Workload:
    """The row of a valid workload; `like` is the one that it was copied from.

    Raises Problem 422 that names the fields, or 409, 413 or 507; nothing is kept then.
    """
    rows = Workload.objects.filter(organisation=organisation)
    quota.check_bytes(organisation)
    quota.check_count(rows, settings.ORGANISATION_WORKLOADS, "workloads", "delete one that is not needed any more")
    own = Recording.objects.filter(organisation=organisation)
    model = check_workload(organisation, user, document, recordings.named_recording(own, document))
    objectives = [objective.counting(model.facts.counted) for objective in document.objectives]
    document = document.model_copy(update={"objectives": objectives, "name": document.name.strip()})
    name = document.name or f"{model.name}, {document.objectives[0].label}"
    with transaction.atomic():
        recording = recordings.named_recording(own.select_for_update(), document)
        if document.traffic.recording and recording is None:
            raise invalid(list(recordings.reasons(model.facts, document, None)))
        workload = Workload.objects.create(
            organisation=organisation,
            name=name[:120],
            document=document.model_dump(mode="json"),
            endpoint_key=endpoints.sealed(document.endpoint, like),
            model=model,
            recording=recording,
            created_by=user,
        )
        if document.endpoint:
            host = urlsplit(document.endpoint.url).netloc
            record(Action.ENDPOINT_NAMED, organisation, workload, actor=user, host=host)
    return workload


def check_workload(organisation: Any, user: Any, document: WorkloadDocument, recording: Recording | None) -> Model:
    """The workload's model, when it suits the objectives and fits a GPU that is allowed.

    Raises Problem 422, and leaves no row of a model of the catalogue then.
    """
    with transaction.atomic():
        model = model_for(organisation, user, document.model)
        facts, unreadable = model.reading
        if facts is None:
            raise invalid([{"field": "model", "reason": unreadable}])
        available = AvailableGpus(ceilings=known_ceilings(organisation, document.constraints.gpu_classes))
        if errors := reasons(facts, document, available, recording):
            raise invalid(errors)
    return model


def reasons(
    facts: ModelManifest, document: WorkloadDocument, available: AvailableGpus, recording: Recording | None = None
) -> list[dict[str, str]]:
    """Why the workload cannot be measured with this model, each with its field; empty when it can.

    `available` is where it would run, `recording` the one that it names.
    """
    return [
        *_text_reasons(document),
        *_limit_reasons(document),
        *_excluded_reasons(document),
        *_kind_reasons(facts, document),
        *_unit_reasons(facts, document),
        *_length_reasons(facts, document),
        *_fit_reasons(facts, document),
        *_impossible_reasons(facts, document, available),
        *_quality_text_reasons(facts, document),
        *recordings.reasons(facts, document, recording.document if recording else None),
        *(endpoints.reasons(document.endpoint, facts) if document.endpoint else ()),
    ]


def _text_reasons(document: WorkloadDocument) -> Iterator[dict[str, str]]:
    """Reasons about the short texts. They stand here, since documents that are kept are read without this rule."""
    texts = {"name": document.name, "present.gpu": document.present.gpu if document.present else ""}
    if document.endpoint:
        texts |= {f"endpoint.{name}": getattr(document.endpoint, name) for name in ("model", "hardware")}
    for field, text in texts.items():
        try:
            check_short_text(text)
        except ValueError as error:
            yield {"field": field, "reason": str(error)}


def _limit_reasons(document: WorkloadDocument) -> Iterator[dict[str, str]]:
    """Limits that no measurement reaches. They stand here for the same reason."""
    for index, objective in enumerate(document.objectives):
        if objective.limit is not None and not MIN_LIMIT <= objective.limit <= MAX_LIMIT:
            reason = f"should be from {MIN_LIMIT:f} to {MAX_LIMIT:,.0f} {objective.unit}, not {objective.limit:g}"
            yield {"field": f"objectives[{index}].limit", "reason": reason}


def _excluded_reasons(document: WorkloadDocument) -> Iterator[dict[str, str]]:
    names = {variant.name for variant in registry.variants()}
    for index, name in enumerate(document.constraints.exclude):
        if name not in names:
            yield {"field": f"constraints.exclude[{index}]", "reason": registry.unknown(name)}
        elif name == document.baseline_plan_runner:
            reason = f"{name} is what runs today, which everything is compared with"
            yield {"field": f"constraints.exclude[{index}]", "reason": reason}


def _kind_reasons(facts: ModelManifest, document: WorkloadDocument) -> list[dict[str, str]]:
    if facts.kind == "decoder":
        outside = outside_vllm(facts.architecture) if document.after_runner == "vllm" else ""
        return [{"field": "after_runner", "reason": outside}] if outside else []
    reason = f"{facts.name} does not generate token by token; promise batch_latency, e2e or throughput"
    errors = [
        {"field": f"objectives[{index}].metric", "reason": reason}
        for index, objective in enumerate(document.objectives)
        if objective.metric in TOKEN_METRICS
    ]
    if document.baseline_runner == "vllm":
        errors.append({"field": "baseline_runner", "reason": f"{facts.name} generates no text; {VLLM_GENERATES}"})
    return errors


def _unit_reasons(facts: ModelManifest, document: WorkloadDocument) -> Iterator[dict[str, str]]:
    for index, objective in enumerate(document.objectives):
        try:
            objective.counting(facts.counted)
        except ValueError as error:
            yield {"field": f"objectives[{index}].unit", "reason": str(error)}


def _length_reasons(facts: ModelManifest, document: WorkloadDocument) -> list[dict[str, str]]:
    longest = longest_sequence(facts.config)
    prompt, output = document.traffic.prompt_tokens, document.traffic.output_tokens if facts.kind == "decoder" else 0
    if longest is None or prompt + output <= longest.tokens:
        return []
    sum_of = f"{prompt:,} prompt and {output:,} output tokens" if output else f"{prompt:,} tokens"
    reason = f"{sum_of} are more than the {longest.tokens:,} positions that {facts.name} has{longest.why}"
    return [{"field": "traffic.prompt_tokens", "reason": reason}]


def _impossible_reasons(
    facts: ModelManifest, document: WorkloadDocument, available: AvailableGpus
) -> Iterator[dict[str, str]]:
    """Promises that no allowed class can keep; of a CPU nothing is known."""
    for index, objective in enumerate(document.objectives):
        allowed = sorted(
            document.constraints.gpu_classes,
            key=lambda name: GPUS[single_gpu_class(name)].memory_tbps * gpus_of(name),
        )
        refusals = [impossible(objective, document, facts, name, available) for name in allowed]
        if all(refusals):
            yield {"field": f"objectives[{index}].limit", "reason": refusals[-1]}


def _quality_text_reasons(facts: ModelManifest, document: WorkloadDocument) -> Iterator[dict[str, str]]:
    if not document.quality_text:
        return
    if facts.counted in ("images", "recordings"):
        yield {"field": "quality_text", "reason": f"{facts.name} reads no text"}
    elif not facts.reads_text:
        yield {"field": "quality_text", "reason": f"{facts.name} has no {TOKENIZER}, which the text takes"}


def _fit_reasons(facts: ModelManifest, document: WorkloadDocument) -> list[dict[str, str]]:
    sizes = [fewest_gpus(facts, document, gpu_class) for gpu_class in document.constraints.gpu_classes]
    if fewest := min(filter(None, sizes), default=None):
        sharded = fewest > 1 and document.baseline_plan_runner == "compiled"
        return [{"field": "baseline_runner", "reason": f"{COMPILED_ON_ONE}: only {fewest} hold it"}] if sharded else []
    needs = needed_gib(facts, document)
    has = {gpu_class: class_memory_gib(gpu_class) for gpu_class in document.constraints.gpu_classes}
    largest = max(has, key=lambda gpu_class: has[gpu_class])
    on_cpu = largest == "cpu"
    words = f"{has[largest]:.1f} GiB" if on_cpu else GPUS[single_gpu_class(largest)].memory_words
    reason = (
        f"{facts.name} needs {needs:,.1f} GiB; the largest allowed {'machine' if on_cpu else 'GPU'}, {largest}, "
        f"has {words}"
    )
    return [{"field": "model", "reason": reason}]


def _smallest(document: WorkloadDocument) -> str:
    """The smallest unquantised precision allowed."""
    exact = [precision for precision in document.constraints.precisions if precision in EXACT]
    return min(exact, key=lambda precision: BYTES[precision], default="bf16")


def needed_gib(facts: ModelManifest, document: WorkloadDocument) -> float:
    """GiB that the traffic takes on one GPU in the smallest unquantised precision allowed (modelled)."""
    return memory.needed_gib(document, facts, _smallest(document))


def fewest_gpus(
    facts: ModelManifest, document: WorkloadDocument, gpu_class: str, gib: float | None = None
) -> int | None:
    """The fewest GPUs of a class that hold the model, with `gib` each (default: `class_memory_gib`); None for none."""
    has = class_memory_gib(gpu_class) if gib is None else gib
    return memory.fewest_gpus(document, facts, _smallest(document), gpu_class, has)


def class_memory_gib(gpu_class: str) -> float:
    """Memory of one GPU of a class by its datasheet; of the CPU, this machine's."""
    if gpu_class == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    return GPUS[single_gpu_class(gpu_class)].memory_gib
