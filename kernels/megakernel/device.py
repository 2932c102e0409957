"""Compiles the megakernel for one model and launches it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.megakernel.program import Program
from kernels.megakernel.ring import safe_groups

SOURCES = Path(__file__).parent
SOURCE_NAMES = ("primitives.cuh", "machine.cuh", "gemv.cuh", "attention.cuh", "decode.cu")
SHARED_MOST = 227 * 1024
CHUNK = 16384
PRODUCER_THREADS = 128
"""A warpgroup, of which one thread works: so the consumers may have its registers."""

POINTERS = (
    "weights", "weight_offset", "program", "program_start", "embedding", "norms", "bias", "qk_norm", "rope",
    "k_cache", "v_cache", "qkv", "attention", "attention_state", "out_planes", "down_planes", "gated",
    "candidates", "fault", "first_token", "forced", "logits", "host_tokens", "host_cancel", "trace",
)  # fmt: skip
SCALARS = (
    "position", "count", "capacity", "qkv_planes", "trace_length", "stop_count",
)  # fmt: skip
STOP_TOKENS = 4
PARAMS = np.dtype(
    [(name, np.uint64) for name in (*POINTERS, "timeout_ns")]
    + [(name, np.int32) for name in SCALARS]
    + [("stop", np.int32, STOP_TOKENS)],
    align=True,
)
"""`struct Params` of machine.cuh."""


@dataclass(frozen=True)
class Tuning:
    """Compile-time choices: consumer warps, groups they take chunks in, chunks in flight, keys worth another split."""

    warps: int = 8
    groups: int = 2
    in_flight: int = 3
    split_keys: int = 64
    trace: bool = False


def defines(program: Program, tuning: Tuning) -> dict[str, Any]:
    """The compile-time constants of machine.cuh; the ring gets what shared memory is left."""
    shape, layout = program.shape, program.layout
    longest = max(int(table[:, 5].max()) for table in program.instructions) * 16
    batch = layout.batch
    other = scratch_bytes(shape.hidden, shape.head_dim, batch, longest, tuning.warps)
    stages = (SHARED_MOST - other) // CHUNK
    if stages < 2:
        raise ValueError(f"batch {batch}: the input of {longest} elements leaves no room for the weight ring")
    stages, in_flight = min(stages, 16), min(tuning.in_flight, stages)
    return {
        "HIDDEN": shape.hidden, "INTER": shape.intermediate, "HEADS": shape.heads, "KV_HEADS": shape.kv_heads,
        "HEAD_DIM": shape.head_dim, "LAYERS": shape.layers, "VOCAB": shape.vocab, "BATCH": batch,
        "QKV_BIAS": int(shape.qkv_bias), "QK_NORM": int(shape.qk_norm), "NORM_EPS": f"{shape.norm_eps!r}f",
        "WARPS": tuning.warps, "GROUPS": safe_groups(stages, tuning.groups, in_flight),
        "STAGES": stages, "IN_FLIGHT": in_flight,
        "INPUT_LENGTH": longest, "MAX_SPLITS": layout.splits, "SPLIT_KEYS": tuning.split_keys,
        "OUT_PLANES": layout.out_parts, "DOWN_PLANES": layout.down_parts, "TRACE": int(tuning.trace),
    }  # fmt: skip


def scratch_bytes(hidden: int, head_dim: int, batch: int, longest: int, warps: int) -> int:
    """An upper bound of sizeof(Shared) less the ring."""
    product = 2 * longest * batch + 2 * 8 * warps * 16 * batch * 4
    attention = 4 * warps * (head_dim + 2)
    return max(product, attention) + batch * hidden * 4 + batch * warps * 12 + 2048


def shared_bytes(constants: dict[str, Any]) -> int:
    """The dynamic shared memory of a block."""
    names = ("HIDDEN", "HEAD_DIM", "BATCH", "INPUT_LENGTH", "WARPS")
    return constants["STAGES"] * CHUNK + scratch_bytes(*(constants[name] for name in names))


def compile_kernel(constants: dict[str, Any]) -> Any:
    """The CuPy function for these constants, compiled by NVRTC for sm_90a; the binary is cached by content."""
    import cupy

    cubin = _cubin(tuple(f"-D{name}={value}" for name, value in constants.items()))
    kernel = cupy.RawModule(path=str(cubin)).get_function("decode")
    kernel.max_dynamic_shared_size_bytes = shared_bytes(constants)
    return kernel


def _cubin(defined: tuple[str, ...]) -> Path:
    sources = [(SOURCES / name).read_text() for name in SOURCE_NAMES]
    content = "\0".join((*sources, *defined))
    cache = Path(os.environ.get("KERNELS_CACHE", Path.home() / ".cache" / "kernel-workbench"))
    path = cache / f"megakernel-{hashlib.sha256(content.encode()).hexdigest()[:32]}.cubin"
    if not path.exists():
        binary = _compiled(sources[-1], defined)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(binary)
        fresh.replace(path)
    return path


def _compiled(source: str, defined: tuple[str, ...]) -> bytes:
    """NVRTC by itself: CuPy's own wrapper cannot name sm_90a, which setmaxnreg needs."""
    from cupy.cuda import nvrtc

    options = ("--std=c++17", f"-I{SOURCES}", *(f"-I{each}" for each in _cuda_includes()), "-arch=sm_90a", *defined)
    program = nvrtc.createProgram(source, "decode.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError as error:
        raise RuntimeError(f"the megakernel does not compile: {nvrtc.getProgramLog(program)}") from error
    finally:
        nvrtc.destroyProgram(program)


def _cuda_includes() -> list[Path]:
    """Where cuda_bf16.h may lie: the toolkit, or the toolkit's wheels."""
    import cupy

    toolkit = cupy.cuda.get_cuda_path()
    wheels = Path(np.__file__).parents[1] / "nvidia"
    found = [Path(toolkit) / "include"] if toolkit else []
    return [each for each in (*found, *wheels.glob("*/include")) if (each / "cuda_bf16.h").exists()]
