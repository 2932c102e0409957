"""Builds the engine of a server for the model, plan, device and size that an operator gives."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernels import runners
from kernels.gemm.skinny import MAX_ROWS
from kernels.hardware import Gpu
from kernels.measure.environment import environment_info
from kernels.measure.gpu_entry import gpu_of
from kernels.megakernel.program.ranks import max_served_batch, shard_of
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.model import tensor_parallel
from kernels.model.decoder import Decoder, refusal
from kernels.model.expert_tiles import tile_experts
from kernels.model.experts import has_experts
from kernels.model.layer_weights import is_fp8
from kernels.model_files.families import stored_rows
from kernels.ops import MODEL_BYTES
from kernels.plan import Plan, Serving
from kernels.quant.formats import EXPERTS, INT4, megakernel_precision
from kernels.quant.quantised_matrix import stored_form
from kernels.runners.plan_files import read_model, read_plan
from kernels.server.execution import pauses
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import compile_together, may_tile, megakernels, pass_builds
from kernels.server.execution.engine import Backend, Engine
from kernels.server.execution.megakernel_backend import (
    MegakernelBackend,
    batches_within,
    capacity_of,
    crossover_batch,
)
from kernels.server.execution.ops import WIDENED_ROWS, Copies, Usable
from kernels.server.execution.served_plans import MEGAKERNEL, plan_sentence, precision_refusal
from kernels.server.execution.server_config import ServerConfig, server_config
from kernels.server.execution.sizing import (
    context_of,
    copies_beside,
    free_bytes,
    limits_for,
    packed_bytes,
)
from kernels.server.messages import Ready
from kernels.server.spec import Spec, configuration
from kernels.server.starting import Phases

MEGAKERNEL_SHARE = 0.4
"""The share of the GPU's free memory that all megakernel instances may take. They hold the weights twice, and a
mixture's without its experts for each batch: experts are the model's."""
MIN_SM_FP8 = 89
"""The compute capability × 10 from which on GPUs convert to e4m3."""


def build_engine(spec: Spec, phases: Phases, compiled: Callable[[], bool] = lambda: False) -> tuple[Engine, Ready]:
    """Loads the model and captures its graphs; the engine, and its message that it is ready. `compiled` waits for
    `compile_ahead`, and says whether it did all. Raises ValueError, MemoryError or PlanRefused, in one sentence.
    """
    directory, config = configuration(spec)
    plan = read_plan(Path(spec.plan)) if spec.plan else None
    device = spec.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device: torch finds no NVIDIA GPU on this machine")
    seed, generated = spec.seed, directory is None or not list(directory.rglob("*.safetensors"))
    if plan is not None:
        config, generated, seed = read_model(Path(spec.model), plan)
    server = server_config(spec, plan, device)
    size = server.tensor_parallel_size
    with phases.phase("device"):  # makes the CUDA contexts
        for item in tensor_parallel.devices_of(size, device):
            torch.zeros(1, device=item)
    with phases.phase("weights"):
        model: Any = runners.load(
            directory,
            config,
            seed=seed,
            generated=generated,
            dtype=server.dtype,
            device=device,
            tensor_parallel_size=size,
        )
    with phases.phase("compile"):
        ahead = server if compiled() else None
    first = tensor_parallel.shards_of(model)[0]
    reason = refusal(first)
    if reason:
        raise ValueError(f"this server runs the compact decoder, which cannot run the model: {reason}")
    gpu = gpu_of(model.device)
    facts = environment_info(device=device)
    if plan is not None and (sentence := plan_refusal(plan, gpu, facts, stored_rows(config))):
        raise ValueError(sentence)
    here = _measured_with(facts)
    if plan is not None:
        _tell(f"the server {plan_sentence(plan, server.dtype, spec.max_num_seqs)}")
        usable = drop_foreign_measurements(plan.serving, here)
        server = server_config(spec, plan.model_copy(update={"serving": usable}), device)
    excluded = {*spec.exclude, *(server.serving or Serving()).exclude}
    if gpu.sm == 90 and MEGAKERNEL in {*server.exclude} - excluded:
        _tell("no megakernel: its caches are in 16 bits and the KV pages in fp8")
    all_backends = build_backends(model, server, phases, spec.capture_all, ahead)
    serving = serving_settings(all_backends, server.serving, here, server.exclude)
    kernels, vocabulary = all_backends[-1], len(first.lm_head.weight)
    assert isinstance(kernels, KernelsBackend)
    return Engine(all_backends, kernels), Ready(
        kernels.limits.max_seq_len, vocabulary, facts["device"], serving, phases.seconds, kernels.graphs,
        kernels.graphs_left, first.device.type == "cuda", kernels.pause_ms,
    )  # fmt: skip


def _measured_with(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """The device, driver and version of torch that a measurement belongs to, out of `environment_info`."""
    return {"device": facts["device"], "driver": facts.get("driver"), "torch": facts["versions"].get("torch")}


def drop_foreign_measurements(serving: Serving | None, here: Mapping[str, str | None]) -> Serving | None:
    """The plan's settings of the server, reset where measured elsewhere than `here`: another `device`, `driver` or
    `torch`. A plan without a megakernel keeps it out.
    """
    for what, value in here.items():
        expected = getattr(serving, what, None)
        if serving and expected and value and expected != value:
            _tell(f"serving of the plan was measured with {what} {expected}, this host has {value}: measuring again")
            up_to = 0 if serving.megakernel_up_to == 0 else None
            return serving.model_copy(
                update={"kv_bytes": None, "graph_rows": [], "megakernel_up_to": up_to, "token_ms": {}}
            )
    return serving


def serving_settings(
    backends: Sequence[Backend], planned: Serving | None, here: Mapping[str, str | None], exclude: Collection[str] = ()
) -> Serving:
    """The settings of a server with these backends, as a plan keeps them; `planned` are the plan's own."""
    kernels, first = backends[-1], backends[0]
    assert isinstance(kernels, KernelsBackend)
    timed = first.timed if isinstance(first, MegakernelBackend) else {}
    return Serving(
        basis="measured",
        max_model_len=kernels.limits.max_model_len,
        max_num_seqs=kernels.limits.max_num_seqs,
        kv_bytes=kernels.state.keys.nbytes + kernels.state.values.nbytes,
        kv_cache_dtype=kernels.limits.kv_cache_dtype,
        graph_rows=sorted({shape.decodes for shape in kernels.shapes if not shape.prefill_chunks}),
        megakernel_up_to=first.max_num_seqs
        if MEGAKERNEL not in exclude or (planned and planned.megakernel_up_to == 0)
        else None,
        exclude=[name for name in exclude if name != MEGAKERNEL],
        token_ms=timed or (planned.token_ms if planned else {}),
        **here,
    )


def build_backends(
    model: Any,
    server: ServerConfig,
    phases: Phases | None = None,
    capture_all: bool = True,
    ahead: ServerConfig | None = None,
) -> list[Backend]:
    """The backends of a transformers model, or of one sharded over several GPUs, in the order in which a step tries
    them.

    The last one runs this library's kernels and can run every step; its graphs are captured on a GPU, and it uses the
    plan's variants. The megakernel's comes first, if it serves the model and is faster. Experts become tiles where they
    can, in place. Prompts of many tokens multiply by the model's own weights.
    `capture_all` as `Spec` has it; `ahead`: for which configuration `compile_ahead` has compiled what a GPU needs that
    holds all copies of the weights. Raises ValueError with one sentence.
    """
    shards, gpu = tensor_parallel.shards_of(model), gpu_of(model.device)
    phases = phases or Phases()
    preferred = server.weights or server.default_weights(model.config.to_dict(), gpu, len(shards))
    with phases.phase("weights"):
        tiled = not may_tile(shards, gpu, preferred, server.exclude) or _tile(shards)
        decoders = [Decoder(shard) for shard in shards]
    decoder = decoders[0]
    weights = _served_weights(model, decoders, gpu, server, preferred)
    if server.size.kv_cache_dtype == "fp8" and 0 < gpu.sm < MIN_SM_FP8:
        raise ValueError(f"--kv-cache-dtype: fp8 is not served on {gpu.name}, which does not convert to e4m3")
    precision = megakernel_precision(weights) or "bf16"
    context = context_of(model.config, server.size)
    batches = megakernel_batches(model, gpu, context, server.max_megakernel_batch, precision)
    reserved = sum(batches.values())
    copies = copies_beside(decoder, model.config, gpu, server.size, reserved, weights)
    if copies is not Copies.ALL:
        _tell("GPU memory does not hold all packed copies of the weights: small batches are slower")
    needed_copies = Usable(gpu, copies, server.exclude, weights).copies
    if weights in (*INT4, "fp8"):
        _tell(weights_sentence(weights, needed_copies))
    reserved += packed_bytes(decoder, gpu, needed_copies, weights)
    limits = limits_for(decoder, model.config, server.size, reserved)
    kernels = KernelsBackend(decoders, gpu, limits, server.decodes, server.ops, copies, server.exclude, weights)
    with phases.phase("compile"):
        is_compiled = ahead == server and tiled and weights == preferred and copies is Copies.ALL
        if decoder.embedding.is_cuda and not is_compiled:
            given = model.config.to_dict(), gpu, capacity_of(context), batches
            own = megakernels(*given, precision, len(shards), served=True)
            compile_together([*(item for pair in own for item in pair), *pass_builds(kernels)])
    with phases.phase("graphs"):
        if decoder.embedding.is_cuda:
            kernels.prepare(capture_all)
        bound_pause(kernels, server.size.pause_ms)
    with phases.phase("megakernel"):
        megakernel = build_megakernel_backend(
            model, kernels, list(batches), server.megakernel_up_to, precision, capture_all
        )
    return [megakernel, kernels] if megakernel else [kernels]


def _served_weights(model: Any, decoders: Sequence[Decoder], gpu: Gpu, server: ServerConfig, preferred: str) -> str:
    """The precision of products: the preferred one, int4 in the form that the model was stored in, and a checkpoint's
    fp8 by default where memory holds its codes as well. Raises ValueError where it is not served.
    """
    decoder = decoders[0]
    weights = stored_form(preferred, [layer.o for layer in decoder.layers])
    if weights == "fp8":
        all_fp8 = decoder.embedding.dtype == torch.bfloat16 and is_fp8(decoder.layers)
        if not server.weights and not (
            all_fp8 and copies_beside(decoder, model.config, gpu, server.size, weights="fp8") is Copies.ALL
        ):
            return ""
        if not all_fp8:
            raise ValueError("--weights: fp8 is served of a checkpoint that has each matrix of its layers so, in bf16")
    if reason := weights_refusal(weights, gpu, model.config, len(decoders)):
        raise ValueError(f"--weights: {weights} is not served on {reason}")
    return weights


def weights_refusal(weights: str, gpu: Gpu, config: Any, gpus: int) -> str:
    """On what weights in such a precision are not served, in words; "" where they are."""
    if weights and gpu.sm != 90:
        return f"{gpu.name}, only Hopper GPUs have its products"
    if weights and gpus > 1 and has_experts(config):
        return "several GPUs, whose experts are in 16 bits"
    if has_experts(config):
        return "" if weights in ("", *EXPERTS) else f"a mixture of experts, only {' and '.join(EXPERTS)} are"
    return "a model without experts" if weights == "mxfp4" else ""


def weights_sentence(weights: str, copies: Copies) -> str:
    """Which passes multiply by weights in fp8 or a form of int4, and which by others, in a sentence."""
    if not copies:
        return f"weights in {weights} do not fit beside the model's own: every pass takes the model's own"
    widened, head = ("fp8", "16 bits") if weights == "fp8" else ("int8", "int8")
    more = f"of up to {WIDENED_ROWS} in {widened} where that is faster, " if copies is Copies.ALL else ""
    size = MODEL_BYTES[weights]
    each = f"{size:.4g} byte{'s' if size != 1 else ''} each, the LM head in {head}"
    return f"passes of up to {MAX_ROWS} rows take weights in {weights} ({each}), {more}longer ones the model's own"


def _tile(shards: Sequence[Any]) -> bool:
    """Puts tiles in place of the experts; returns True. Where they do not fit, are wrong or slower, says so."""
    try:
        tile_experts(*shards)
        return True
    except (RuntimeError, ValueError) as reason:
        _tell(f"experts stay row by row, and the megakernel holds them once more: {reason}")
        return False
    finally:
        runners.free()


def bound_pause(kernels: KernelsBackend, most_ms: float | None) -> None:
    """Lets a step read as much of prompts beside the tokens of others as takes `most_ms` (None: the default)."""
    device, limits = kernels.device.type, kernels.limits
    most = pauses.MAX_MS[device] if most_ms is None else most_ms
    ms = pauses.estimated(kernels.pass_ms, limits.max_num_seqs) if device == "cpu" else kernels.longest_ms
    kernels.limits, kernels.pause_ms = pauses.within(limits, kernels.shapes, ms, most)
    if kernels.pause_ms > most:
        _tell(f"--pause-ms: the shortest step with a prompt takes {kernels.pause_ms:,.1f} ms, more than {most:,.10g}")


def megakernel_batches(model: Any, gpu: Gpu, context: int, most: int, weights: str = "bf16") -> dict[int, int]:
    """The megakernel's batches with their bytes, for up to `most` sequences and MEGAKERNEL_SHARE of the free memory; {}
    where it does not serve the model or the GPU.
    """
    first, *others = tensor_parallel.shards_of(model)
    if gpu.sm != 90 or first.dtype != torch.bfloat16:
        return {}
    from kernels.server.execution.megakernel_instance import instance_bytes

    free = free_bytes(model.device) * MEGAKERNEL_SHARE
    try:
        shape = shard_of(shape_of(model.config.to_dict()), 1 + len(others), weights)
        most = min(most, max_served_batch(shape, 1 + len(others)))
        return batches_within(most, free, lambda batch: instance_bytes(first, batch, capacity_of(context), weights))
    except Unsupported as reason:
        _tell(f"no megakernel: {reason}")
        return {}


def build_megakernel_backend(
    model: Any,
    kernels: KernelsBackend,
    batches: Sequence[int],
    up_to: int | None = None,
    weights: str = "bf16",
    time_all: bool = True,
) -> MegakernelBackend | None:
    """The megakernel's backend for steps of up to `up_to` sequences. If that is None, both backends are timed over
    equal lengths at each batch, or unless `time_all` from the largest down to the first where the megakernel is faster;
    returns None where it never is.
    """
    if not batches:
        return None
    from kernels.megakernel.host.rank_models import with_codes
    from kernels.server.execution.megakernel_instance import MachineInstance

    try:
        capacity = capacity_of(kernels.limits.max_model_len)
        ranks = with_codes(model, kernels.models, weights)
        instances: list[MachineInstance] = []
        for batch in batches:
            instances.append(MachineInstance(model, ranks, batch, capacity, weights, instances))
    except ValueError as reason:
        _tell(f"no megakernel: {reason}")
        return None
    backend = MegakernelBackend(kernels.states, kernels.limits, instances)
    backend.prepare()
    if up_to is not None:
        backend.keep(min(up_to, backend.max_num_seqs))
        return backend
    times: dict[int, tuple[float, float]] = {}
    for batch in sorted(batches, reverse=True):
        times[batch] = kernels.pass_ms(batch), backend.token_ms(batch)
        if not time_all and times[batch][1] < times[batch][0]:
            break
    times = dict(sorted(times.items()))
    most = crossover_batch(
        {batch: ms for batch, (ms, _) in times.items()}, {batch: ms for batch, (_, ms) in times.items()}
    )
    backend.timed = {batch: {"kernels": ms, "megakernel": own} for batch, (ms, own) in times.items()}
    measured = ", ".join(f"{batch}: {ms:.3f} {own:.3f}" for batch, (ms, own) in times.items())
    _tell(f"decode ms by batch size (kernels, megakernel): {measured}; megakernel up to batch size {most}")
    if not most:
        return None
    backend.keep(most)
    return backend


def _tell(sentence: str) -> None:
    print(f"kernels serve: {sentence}", file=sys.stderr, flush=True)


def plan_refusal(plan: Plan, gpu: Gpu, facts: dict[str, Any], stored: str = "") -> str | None:
    """Why the plan cannot be served here; None if it can. `facts` of `environment_info`; `stored`: the weights'."""
    if plan.gpu != gpu.gpu_class:
        return (
            f"--plan: it was made for {plan.gpu} and this device is {gpu.gpu_class}: "
            "measure the model here, or serve it without a plan"
        )
    here = _measured_with(facts)
    for what, value in here.items():
        expected = getattr(plan.expected, what, None)
        if expected and value and expected != value:
            return (
                f"--plan: it was verified with the {what} {expected} and this is {value}: "
                "measure the model here, or serve it without a plan"
            )
    return precision_refusal(plan, stored)
