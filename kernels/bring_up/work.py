"""The work of the bring-up's steps. Each function runs in a process of its own and gives JSON."""

from typing import Any

from kernels.ops import Case

MODELS = {"cuda": ("llama-3.2-1b", "qwen2.5-1.5b", "llama-3.1-8b"), "cpu": ("tiny-llama", "tiny-qwen2")}
"""The catalogue models whose ops are raced, by kind of device, in the order of `--quick`, which takes the first."""
DTYPE = {"cuda": "bf16", "cpu": "fp32"}
PROMPT, TOKENS = 128, 64


def measure_device(quick: bool) -> dict[str, Any]:
    """The environment, the GPU's entry with its measured rates, and the ceilings."""
    from dataclasses import asdict, replace

    from kernels.measure.ceilings import measure_ceilings
    from kernels.measure.environment import current_device
    from kernels.measure.roofline import burst_rates

    device, gpu, environment = current_device()
    ceilings = measure_ceilings(device.type, quick=quick)
    if gpu.source == "driver":
        rates = burst_rates(ceilings)["matrix_tflops"]
        gpu = replace(gpu, bf16_tflops=rates.get("bf16", 0.0), fp8_tflops=rates.get("fp8", 0.0), source="measured")
    return {"kind": device.type, "environment": environment, "entry": asdict(gpu), "ceilings": ceilings}


def measure_limits() -> dict[str, Any]:
    """What barriers cost, how fast shared memory is read, and how fast GPUs exchange data."""
    from kernels.measure import limits
    from kernels.measure.environment import current_device

    return limits.measure_limits(current_device()[0].type)


def layer_ops(kind: str, model: str, batch: int = 1) -> Any:
    """The `LayerOps` of a catalogue model for a prompt of PROMPT tokens and TOKENS outputs; no weights are made."""
    from kernels.model.decoder import Decoder
    from kernels.model.layer_ops import BatchShape, LayerOps
    from kernels.model.loading import skeleton
    from kernels.model_files import catalogue

    return LayerOps(Decoder(skeleton(catalogue.entry(model)[0], DTYPE[kind])), BatchShape(batch, PROMPT, TOKENS))


def prove(case: dict[str, Any], compiled: bool) -> list[dict[str, Any]]:
    """Every variant that serves the case through the gate: variant, case, gate and sentence, or why it refuses."""
    from kernels import registry
    from kernels.cli.check import gate_rows
    from kernels.measure.environment import current_device

    device, gpu, _ = current_device()
    read = _case(case)
    variants = [variant.name for variant in registry.variants(read.op) if compiled or not variant.build_seconds]
    return gate_rows(variants, device, gpu, read)


def race(case: dict[str, Any], ceilings: dict[str, Any], seconds: float, compiled: bool) -> dict[str, Any]:
    """The variants of one case timed side by side: rows as in a bench document, and the floor in ms."""
    from kernels import registry
    from kernels.cli.bench import bench_rows, compiled_peers
    from kernels.measure.environment import current_device
    from kernels.measure.roofline import burst_rates, floor_ms
    from kernels.tune.autotune import TuningContext, try_case

    device, gpu, _ = current_device()
    read = _case(case)
    only = {variant.name for variant in registry.variants(read.op) if not variant.build_seconds}
    if compiled and device.type == "cuda":
        only |= compiled_peers(read)
    trials = try_case(TuningContext(device, gpu, ceilings, only=frozenset(only)), read, seconds=seconds)
    rows = bench_rows(trials, "burst" if device.type == "cuda" else None)
    return {"floor_ms": floor_ms(read, burst_rates(ceilings)), "rows": [row.model_dump(mode="json") for row in rows]}


def _case(values: dict[str, Any]) -> Case:
    from kernels import ops

    read: Case = ops.case_from.validate_python(values)
    return read
