"""Whether the model can be built, its tensors fit its configuration, and the GPU holds it with the workload's traffic.

Nothing runs here: the model is built on the meta device, and of the safetensors only the headers are read.
"""

import os
from pathlib import Path
from typing import Any

from kernels import model_files, runners
from kernels.hardware import GPUS
from kernels.measure import host_memory
from kernels.model_files.architectures import check_architecture
from kernels.model_files.config import value
from kernels.ops import BYTES
from kernels.runners.vllm_runner import PYTHON_VARIABLE
from workers.documents.gpu_class import Feasibility, gpus_of, single_gpu_class
from workers.documents.model import CountedUnit, ModelManifest
from workers.documents.prices import PriceBook
from workers.documents.stages import AdmitResult, StageInput
from workers.documents.workload import TOKEN_METRICS, Workload
from workers.harness.context import Context, StageError
from workers.measuring import texts
from workers.prediction.feasibility import COMPILED_ON_ONE, VLLM_GENERATES, AvailableGpus, why_several
from workers.prediction.generation import divides
from workers.prediction.memory import GIB, fewest_gpus, needed_gib
from workers.prediction.precisions import serving_dtype
from workers.prediction.predict import predict_run
from workers.wording.load_search import NO_VLLM
from workers.wording.serving import outside_vllm

UNKNOWN_VOCABULARY = 2**22
"""Where config.json does not say how many tokens the model knows: the most that any may."""


def feasibility(gpu_class: str, workload: Workload, model: ModelManifest, dtype: str) -> Feasibility:
    """Whether the GPUs of a class can hold the model as it runs today; the CPU's memory is the container's."""
    gpu, gpus = GPUS[single_gpu_class(gpu_class)], gpus_of(gpu_class)
    has_gib = host_memory.total_bytes() / GIB if gpu_class == "cpu" else gpu.memory_gib
    size = fewest_gpus(workload, model, dtype, gpu_class, has_gib)
    needs_gib, reason = needed_gib(workload, model, dtype, size or 1), ""
    if size is None:
        has = f"{has_gib:.1f} GiB" if gpu_class == "cpu" else gpu.memory_words
        weights = model.parameters * BYTES[dtype] / GIB
        needs = f"The model needs {needs_gib:.1f} GiB in {dtype} ({weights:.1f} GiB of them weights)"
        reason = f"{needs}, but {gpu.name} has {has}."
        if gpus > 1 and divides(model, gpus):
            parts = needed_gib(workload, model, dtype, gpus)
            reason = f"{needs}, {parts:.1f} GiB on each of {gpus} GPUs, but {gpu.name} has {has}."
        elif gpus > 1:
            reason += f" {gpus} GPUs cannot divide it."
    return Feasibility(
        gpu_class=gpu_class,
        needs_gib=needs_gib,
        has_gib=has_gib,
        feasible=size is not None,
        tensor_parallel_size=size or 1,  # type: ignore[arg-type]
        reason=reason,
    )


def check_tensors(model_dir: Path, config: dict[str, Any]) -> list[str]:
    """Compares every tensor of the safetensors with the model that transformers builds. Returns notes for people.

    The model is loaded onto the meta device, so that transformers' own renaming of older checkpoints applies and no
    weight is read. Raises StageError naming the first tensor that is missing or has another shape.
    """
    from kernels.model import loading

    try:
        configuration = loading.configuration(config)
        built: Any = loading.model_class(configuration)
        _, report = built.from_pretrained(
            model_dir,
            config=configuration,
            device_map={"": "meta"},
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:  # transformers fails with many types on tensors that it cannot place
        raise StageError(f"The tensors cannot be read: {str(error).splitlines()[0][:300]}", refused=True) from error
    _refuse_mismatches(report, model_dir)
    unexpected = sorted(report["unexpected_keys"])
    if not unexpected:
        return []
    return [f"The safetensors hold {len(unexpected)} tensors that the model does not use, first {unexpected[0]}."]


def _refuse_mismatches(report: Any, model_dir: Path) -> None:
    from kernels.model.loading import missing_tensors

    for name, mismatch, implied in sorted(report["mismatched_keys"]):
        raise StageError(
            f"The tensor {name} has shape {list(mismatch)}, but config.json implies {list(implied)}.",
            refused=True,
            file=_file_of(model_dir, name),
            field=name,
        )
    if missing := missing_tensors(report):
        and_more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StageError(
            f"config.json implies the tensor {missing[0]}{and_more}, but no safetensors file holds it.",
            refused=True,
            file="config.json",
            field=missing[0],
        )


def _file_of(model_dir: Path, tensor: str) -> str:
    """The shard that holds the tensor. In the shard the name may lack the model's prefix."""
    for shard in sorted(model_dir.glob("*.safetensors")):
        names = {tensor.name for tensor in model_files.read_header(shard.name, shard)}
        if any(tensor == name or tensor.endswith(f".{name}") for name in names):
            return shard.name
    return "config.json"


def check_workload(
    workload: Workload,
    kind: str,
    config: dict[str, Any],
    gpu_class: str,
    book: PriceBook,
    counted: CountedUnit = "tokens",
) -> None:
    """Refuses objectives and traffic that this model or price book cannot serve. Raises StageError."""
    if kind != "decoder" and workload.baseline_runner == "vllm":
        raise StageError(f"The model generates no text; {VLLM_GENERATES}.", refused=True, field="baseline_runner")
    outside = outside_vllm(next(iter(config.get("architectures") or []), ""), gpu_class)
    if workload.after_runner == "vllm" and outside:
        raise StageError(f"After cannot be vLLM: {outside}.", refused=True, field="after_runner")
    for index, objective in enumerate(workload.objectives):
        field = f"objectives.{index}.metric"
        if kind != "decoder" and objective.metric in TOKEN_METRICS:
            raise StageError(
                f"{objective.label} is about generated tokens, but the model generates none; "
                "take batch_latency, e2e or throughput.",
                refused=True,
                field=field,
            )
        try:
            objective.counting(counted)
        except ValueError as error:
            raise StageError(f"{objective.label}: {error}.", refused=True, field=f"objectives.{index}.unit") from error
        if objective.metric == "cost_per_mtok" and all(
            price.gpu_class != single_gpu_class(gpu_class) for price in book.prices
        ):
            raise StageError(
                f"{objective.label} needs a price for {gpu_class}, but the price book {book.name!r} has none.",
                refused=True,
                field=field,
            )
    _check_length(workload, kind, config)


def _check_length(workload: Workload, kind: str, config: dict[str, Any]) -> None:
    longest = model_files.longest_sequence(config)
    traffic = workload.traffic
    output = traffic.output_tokens if kind == "decoder" else 0
    length = traffic.prompt_tokens + output
    if longest is not None and length > longest.tokens:
        raise StageError(
            f"A request has {traffic.prompt_tokens:,} {f'prompt and {output:,} output ' if output else ''}tokens, more "
            f"than the {longest.tokens:,} tokens that the model's configuration allows{longest.why}.",
            refused=True,
            file="config.json",
            field="traffic.prompt_tokens",
        )


def _check_files(document: StageInput, context: Context) -> None:
    try:
        if not document.model.generated:
            model_files.inspect(context.model_dir)
        _check_text(document, context.model_dir)
    except model_files.ModelRefused as error:
        raise StageError(str(error), refused=True, file=error.file, field=error.field) from error


def _check_text(document: StageInput, model_dir: Path) -> None:
    """The tokenizer, and the workload's text where it has one. Raises ModelRefused."""
    model, workload = document.model, document.workload
    config = model.config.get("text_config") or model.config
    reads = model.counted not in ("images", "recordings")
    words = (value(config, "vocab_size") or UNKNOWN_VOCABULARY) if reads else None
    length = texts.sequence_length(workload.traffic, model.kind == "decoder", words or 1)
    texts.check(model_dir, workload.quality_text, length, words)


def _compare_tensors(document: StageInput, context: Context) -> list[str]:
    dequantised = [document.model.dequantised_sentence] if document.model.quantised else []
    if document.model.generated:
        return ["The weights are generated from a seed: speed is that of the real model, quality cannot be measured."]
    return [*dequantised, *check_tensors(context.model_dir, document.model.config)]


def run(document: StageInput, context: Context) -> AdmitResult:
    """The admit stage. Raises StageError with `refused` when the model or the workload cannot be served."""
    from kernels.model import inputs

    context.report_progress(0.1, "reading the model's configuration and headers")
    _check_files(document, context)
    workload, config = document.workload, document.model.config
    try:
        check_architecture(config["model_type"], config.get("architectures") or [])
        facts = runners.describe(config)
        if facts.kind != "decoder":
            inputs.check(config)
    except (ValueError, model_files.ModelRefused) as error:
        raise StageError(str(error), refused=True, file="config.json") from error
    context.report_progress(0.5, "comparing the tensors with the configuration")
    notes = _compare_tensors(document, context)
    check_workload(workload, facts.kind, config, document.gpu_class, document.prices, document.model.counted)
    if workload.baseline_runner == "vllm" and not os.environ.get(PYTHON_VARIABLE):
        context.report_progress(0.7, NO_VLLM)
        notes.append(NO_VLLM)
    context.report_progress(0.8, "checking the memory it needs")
    dtype = serving_dtype(facts.dtype, list(workload.constraints.precisions), document.gpu_class)
    if document.gpu_class == "cpu" and BYTES[dtype] > BYTES.get(facts.dtype, 4):
        notes.append(f"The checkpoint is in {facts.dtype}, but on a CPU what runs today is measured in {dtype}.")
    gpu_classes = dict.fromkeys([document.gpu_class, *workload.constraints.gpu_classes])
    classes = [feasibility(name, workload, document.model, dtype) for name in gpu_classes]
    if not classes[0].feasible:
        others = [item.gpu_class for item in classes if item.feasible]
        hint = f" {', '.join(others)} could hold it." if others else " No allowed GPU class can hold it."
        raise StageError(classes[0].reason + hint, refused=True, field="constraints.gpu_classes")
    size = classes[0].tensor_parallel_size
    if size > 1:
        if workload.baseline_plan_runner == "compiled":
            raise StageError(f"{COMPILED_ON_ONE}: only {size} hold it.", refused=True, field="baseline_runner")
        notes.append(f"No GPU alone holds the model: as it runs today it takes {size}.")
    context.report_progress(1.0, f"{facts.architecture} fits {document.gpu_class}")
    return AdmitResult(
        kind=facts.kind,
        family=facts.family,
        architecture=facts.architecture,
        parameters=facts.parameters,
        weight_bytes=facts.weight_bytes,
        kv_bytes_per_token=facts.kv_bytes_per_token,
        dtype=dtype,
        classes=classes,
        tensor_parallel_size=size,
        predicted=predict_run(workload, document.model, document.gpu_class, document.ceilings),
        notes=notes,
        why_several=why_several(
            workload,
            document.model,
            document.gpu_class,
            workload.constraints.gpu_classes,
            AvailableGpus((), document.ceilings),
        ),
    )


if __name__ == "__main__":
    from workers.harness.cli import main

    main(run)
