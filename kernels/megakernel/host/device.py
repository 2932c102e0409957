"""The megakernel's compile-time constants for one model, its shared memory, and the structures of a launch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernels.cuda import nvrtc
from kernels.cuda.occupancy import MAX_SHARED_BYTES, max_active_clusters
from kernels.megakernel.program import Program
from kernels.megakernel.program.exchange import MAX_COUNT, bin_words, columns_of
from kernels.megakernel.program.instructions import ADD, ATTENTION, HEAD, OUT
from kernels.megakernel.program.layout import (
    EVEN_HIDDEN,
    Layout,
    groups_of,
    heads_of_columns,
    max_active_experts,
    streamed_alone,
)
from kernels.megakernel.program.ranks import TENSOR_PARALLEL_SIZES, programs
from kernels.megakernel.program.shape import ACTIVATIONS, MAX_BATCH, ModelShape
from kernels.megakernel.program.weights import FORMATS, GROUP_TILES, MXFP4, ZEROS
from kernels.megakernel.proof.validate import check_programs_once
from kernels.ops.gated import SWIGLUOAI_ALPHA, SWIGLUOAI_LIMIT
from kernels.ops.sampling import Sampling
from kernels.tiles.maps import TENSOR_MAP

SOURCES = Path(__file__).parents[1] / "cuda"
PROLOGUE_HIDDEN = 1024, 2048
"""Prologue chunks speed up bf16 for hidden sizes above the first value and up to the second."""
PROLOGUE_FEW = 2
"""The prologue chunks that fit into registers beside splits or norms of q and k."""
PROLOGUE_OF_FOUR = 1
"""The prologue chunks that fit into registers where four GPUs run the model and OUT attends."""
WARPS = 8
"""Consumer warps."""
PRODUCER_THREADS = 128
"""A warpgroup with the producer thread and the RMS-scale warp; by setmaxnreg consumers get most of its registers."""

PREFETCH_BYTES = 65536
"""An SM's weights in the L2 beyond its ring. A mixture has none: measured, 0 to 288 KB changed OLMoE's token from 0.693
to 0.720 ms and Qwen3-30B-A3B's by less than 1 %, and took 5 to 6 % more for eight sequences."""

UNIT_BATCH = {1: 8, 2: 8, 4: 4, 8: 2}
"""kUnitBatch of parameters.cuh, by kColumns: row tiles that are reduced together."""

SPLIT_KEYS = {32: 256, 64: 256, 128: 192, 256: 128}
"""Keys for which another split saves time, by head_dim: about what the warps of an SM hold in registers at once."""
FEW_SPLITS, FEW_SPLIT_KEYS = 4, 48
"""OUT merges up to FEW_SPLITS splits of one sequence at almost no cost; FEW_SPLIT_KEYS keys then justify another."""
SHARED_SPLIT_KEYS = 128
"""Keys for which another split saves time where neighbours share the splits, and each merges half of them."""

POINTERS = (
    "weights", "weight_offset", "experts", "program", "program_start", "embedding", "norms", "bias", "qk_norm", "rope",
    "k_cache", "v_cache", "qkv", "attention", "attention_state", "out_partials", "down_partials", "gated",
    "normed", "router", "candidates", "counts", "fault", "first_token", "forced", "logits", "host_tokens",
    "host_cancel", "trace", "touched", "residuals",
)  # fmt: skip
SCALARS = ("count", "capacity", "trace_length", "first_made")
STOP_TOKENS = 4
SAMPLING = np.dtype(
    [("inverse_temperature", "f4"), ("top_p", "f4"), ("top_k", "i4"), ("stream", "u4"), ("seed", "u8")], align=True
)
"""`struct Sampling` of parameters.cuh."""
MAPS, MAP_ALIGNMENT = ("key_map", "value_map"), 64
_FIELDS = [
    *((name, TENSOR_MAP) for name in MAPS),
    *((name, np.uint64) for name in (*POINTERS, "timeout_ns", "logits_stride", "words")),
    ("positions", np.int32, MAX_BATCH),
    *((name, np.int32) for name in SCALARS),
    ("stop", np.int32, STOP_TOKENS), ("sampling", SAMPLING, MAX_BATCH),
]  # fmt: skip
_BIASES = [(name, np.uint64) for name in ("sinks", "out_bias", "router_bias", "gate_up_bias", "down_bias")]
_OF_RANKS = [("peers", np.int64, max(TENSOR_PARALLEL_SIZES) - 1), ("rank", np.int32)]


def params_of(ranks: int) -> np.dtype:
    """`struct Params` of parameters.cuh with its padding: tensor maps come first, its size is a multiple of theirs."""
    fields = [*_FIELDS, *(_OF_RANKS if ranks > 1 else ()), *_BIASES]
    return np.dtype([*fields, ("rest", "u1", -np.dtype(fields, align=True).itemsize % MAP_ALIGNMENT)], align=True)


RING_BOX = (32, 1, 64)
"""Rows, key-value heads and dimensions of one copy into the ring: kBoxKeys of ring_keys.cuh."""
RING_PROMOTION = 128
"""Bytes that a copy brings into the L2 for each row: those beside it belong to a head of other SMs."""


def check_sms(required: int, available: int) -> None:
    """Raises ValueError unless all blocks of a launch, which wait for each other, fit on the GPU at once."""
    if required > available:
        raise ValueError(f"sms: the layout has {required} SMs and the GPU {available}")


def sampling_words(sampling: Sequence[Sampling], vocab: int) -> np.ndarray:
    """The sequences' options as SAMPLING [n]. Options without effect have neutral values: top_p 1, all others 0."""
    words = np.zeros(len(sampling), dtype=SAMPLING)
    words["top_p"] = 1
    for word, how in zip(words, sampling, strict=True):
        if not how.greedy:
            top_k = how.top_k if how.top_k < vocab else 0
            word["inverse_temperature"] = 1 / how.temperature
            word["top_p"], word["top_k"], word["stream"], word["seed"] = how.top_p, top_k, how.stream, how.seed
    return words


@dataclass(frozen=True)
class Tuning:
    """Compile-time choices.

    - `prologue_chunks`: chunks of gate and up that consumers load into registers while they wait for their input.
    - `in_flight`: chunks in flight from memory; `long_in_flight` within a long product or while consumers wait for
      chunks; `prefetched_in_flight` from the L2, after a prefetch.
    - `prefetch_bytes`: weights that are brought into the L2 beyond the ring, by default PREFETCH_BYTES or, of a
      mixture, none; `prefetch_cycles`: SM cycles for each 4 KB.
    - `trace` records times, `debug` the words that each instruction touches and the residuals; both take time.
    """

    prologue_chunks: int = 3
    in_flight: int = 3
    long_in_flight: int = 5
    prefetched_in_flight: int = 8
    prefetch_bytes: int | None = None
    prefetch_cycles: int = 225
    trace: bool = False
    debug: bool = False


def defines(program: Program, tuning: Tuning) -> dict[str, Any]:
    """The macros of parameters.cuh. The ring gets the remaining shared memory."""
    shape, layout = program.shape, program.layout
    longest = max(int(table[:, 5].max()) for table in program.instructions) * 16
    batch = layout.batch
    slices = [int(table[table[:, 0] == ADD, 5].max(initial=0)) * 16 for table in program.instructions]
    attended, residual = attention_sizes(program), max(slices) or shape.hidden
    form = layout.form
    inputs = input_bytes(longest, form.unit_words)
    slots = max_active_experts(shape, batch)
    residuals = residual * (1 + shape.norm_after)
    other = scratch_bytes(residuals, inputs, shape.head_dim, batch, slots, *attended.values())
    mine = max(int(table[table[:, 0] == HEAD, 2].sum()) for table in program.instructions)
    if mine * 16 > MAX_COUNT:
        raise ValueError(f"vocab: {mine * 16} tokens on one SM are more than a word of a search can count")
    slot = max(value.slot_bytes for value in (form, layout.head_form, layout.expert_form))
    stages = (MAX_SHARED_BYTES - other) // slot
    if stages < 2:
        raise ValueError(f"batch {batch}: the input of {longest} elements leaves no room for the weight ring")
    stages = min(stages, 16)
    in_flight, ahead = min(tuning.in_flight, stages), min(tuning.prefetched_in_flight, stages)
    long = min(tuning.long_in_flight, stages) if batch == 1 and streamed_alone(layout.weights) else in_flight
    macros = {
        "HIDDEN": shape.hidden, "INTER": shape.intermediate, "HEADS": shape.heads, "KV_HEADS": shape.kv_heads,
        "HEAD_DIM": shape.head_dim, "LAYERS": shape.layers, "VOCAB": shape.vocab, "BATCH": batch,
        "QKV_BIAS": int(shape.qkv_bias), "QK_NORM": shape.qk_norm + shape.whole_norm,
        "NORM_EPS": f"{shape.norm_eps!r}f", "SCORE_SCALE": f"{shape.score_scale!r}f",
        "GATE": ACTIVATIONS.index(shape.gate), "ROPES": 1 + shape.two_ropes, "WINDOW": shape.window,
        "FULL_EVERY": shape.full_every, "UNROTATED_EVERY": shape.unrotated_every, "SCORE_CAP": f"{shape.score_cap!r}f",
        "LOGIT_CAP": f"{shape.logit_cap!r}f", "SINKS": int(shape.sinks), "OUT_BIAS": int(shape.out_bias),
        "EXPERT_BIAS": int(shape.expert_bias), "SWIGLUOAI_ALPHA": SWIGLUOAI_ALPHA, "SWIGLUOAI_LIMIT": SWIGLUOAI_LIMIT,
        "NORM_BEFORE": int(shape.norm_before), "NORM_AFTER": int(shape.norm_after),
        "EXPERTS": shape.experts, "TOP_K": shape.top_k, "NORMALISED": int(shape.normalised),
        "GROUPS": layout.expert_groups, "WARPS": WARPS, "PROLOGUE_CHUNKS": prologue_chunks(program, tuning),
        "STAGES": stages, "IN_FLIGHT": in_flight, "LONG_IN_FLIGHT": long, "PREFETCHED_IN_FLIGHT": ahead,
        "INPUT_LENGTH": longest, "MAX_SPLITS": layout.splits, "SPLIT_KEYS": split_keys(program),
        "RANKS": layout.tensor_parallel_size, "OUT_PARTIALS": layout.out_partials,
        "DOWN_PARTIALS": layout.down_partials, "PAIRS": int(layout.pairs),
        "COPIES": layout.copies, "TRACE": int(tuning.trace), "DEBUG": int(tuning.debug), "SLICE": max(slices),
        "KEYS_IN_RING": int(layout.splits > 0 and shape.head_dim >= RING_BOX[2]),
        "WEIGHT_BITS": form.bits, "HEAD_BITS": layout.head_form.bits, "EXPERT_BITS": layout.expert_form.bits,
        "INTEGERS": int(form.integers),
        "ZEROS": ZEROS.index(form.zeros), "SCALED_TILES": form.scaled, "CHUNK_BLOCKS": layout.chunk_blocks,
        "PREFETCH_BYTES": prefetch_bytes(program, tuning), "PREFETCH_CYCLES": tuning.prefetch_cycles,
    } | attended  # fmt: skip
    return macros | {
        "PARAMS_BYTES": params_of(layout.tensor_parallel_size).itemsize,
        "SHARED_BYTES": shared_bytes(macros),
    }


def prefetch_bytes(program: Program, tuning: Tuning) -> int:
    """The bytes of weights that an SM brings into the L2 beyond its ring."""
    usual = 0 if program.shape.experts else PREFETCH_BYTES
    return usual if tuning.prefetch_bytes is None else tuning.prefetch_bytes


def prologue_chunks(program: Program, tuning: Tuning) -> int:
    """Chunks of gate and up that consumers keep in registers while they wait for partials: faster for one sequence in
    bf16 at some hidden sizes, if threads that merge splits load equally many columns.
    """
    shape, layout = program.shape, program.layout
    gains = layout.batch == 1 and layout.form.bits == 16 and PROLOGUE_HIDDEN[0] < shape.hidden <= PROLOGUE_HIDDEN[1]
    if (
        not gains
        or layout.sliced
        or shape.experts
        or shape.norm_after
        or not (layout.pairs or (layout.splits and shape.hidden % EVEN_HIDDEN == 0))
    ):
        return 0
    if layout.tensor_parallel_size == 4 and not layout.splits:
        return min(tuning.prologue_chunks, PROLOGUE_OF_FOUR)
    return min(tuning.prologue_chunks, PROLOGUE_FEW) if layout.splits or shape.qk_norm else tuning.prologue_chunks


def split_keys(program: Program) -> int:
    """The number of keys that justifies another split."""
    layout = program.layout
    if layout.batch == 1 and layout.splits <= FEW_SPLITS:
        return FEW_SPLIT_KEYS
    return SHARED_SPLIT_KEYS if layout.pairs and layout.splits else SPLIT_KEYS[program.shape.head_dim]


def attention_sizes(program: Program) -> dict[str, int]:
    """The most query and KV heads that one instruction attends with, and the input of OUT that attends."""
    shape, spans, columns = program.shape, set(), 8
    for table in program.instructions:
        for op, units, k_tile, k_tiles, head, heads in table[:, [0, 2, 4, 5, 8, 9]].tolist():
            if op == ATTENTION:
                spans.add((head, heads))
            elif op == OUT and units and (program.layout.pairs or not program.layout.splits):
                columns = max(columns, k_tiles * 16)
                if not program.layout.splits:
                    spans.add(heads_of_columns(shape, k_tile, k_tiles))
    groups = max(len(groups_of(shape, *span)) for span in spans)
    return {"ATTENDED_HEADS": max(heads for _, heads in spans), "ATTENDED_GROUPS": groups, "OUT_INPUT": columns}


def input_bytes(longest: int, unit_words: int) -> int:
    """The bytes of one product's input vector, with so many words of 4 bytes for each group of integers."""
    return 2 * longest + 4 * unit_words * -(-longest // (16 * GROUP_TILES))


def scratch_bytes(
    residual: int, inputs: int, head_dim: int, batch: int, slots: int, heads: int, groups: int, columns: int
) -> int:
    """An upper bound of sizeof(Shared) without the ring, in bytes.

    `residual` columns of the residual are kept, with those of what is added to it where that is normed; `inputs` are
    those of `input_bytes`, and `slots` experts may be at work. The last three are those of `attention_sizes`.
    """
    filled = columns_of(batch)
    product = inputs * filled + 2 * UNIT_BATCH[filled] * WARPS * 16 * batch * 4
    attention = 2 * columns * filled + 4 * (heads + groups) * head_dim + 4 * WARPS * min(heads, 8) * (head_dim + 2)
    sample = 2 * 8 * WARPS * bin_words(batch) + 4 * bin_words(batch) + 48 * batch
    routing = slots * 4 * (1 + batch) + 32 * batch
    return max(product, attention, sample) + 6 * columns + batch * (residual * 4 + WARPS * 12) + routing + 2048


def shared_bytes(constants: dict[str, Any]) -> int:
    """The dynamic shared memory of a block."""
    slots = min(constants["BATCH"] * constants["TOP_K"], constants["EXPERTS"])
    names = ("ATTENDED_HEADS", "ATTENDED_GROUPS", "OUT_INPUT")
    integers = bool(constants["INTEGERS"])
    sizes = [
        (constants["WEIGHT_BITS"], constants["SCALED_TILES"], ZEROS[constants["ZEROS"]]),
        (constants["HEAD_BITS"], GROUP_TILES if integers else 0, ""),
    ]
    forms = [form for form in FORMATS.values() if (form.bits, form.scaled, form.zeros) in sizes]
    if constants["EXPERT_BITS"] != constants["WEIGHT_BITS"]:
        forms.append(MXFP4)
    slot = max(replace(form, chunk_blocks=constants["CHUNK_BLOCKS"]).slot_bytes for form in forms)
    residual = (constants["SLICE"] or constants["HIDDEN"]) * (1 + constants["NORM_AFTER"])
    inputs = input_bytes(constants["INPUT_LENGTH"], (1 + bool(constants["ZEROS"])) * integers)
    attended = [constants[name] for name in names]
    scratch = scratch_bytes(residual, inputs, constants["HEAD_DIM"], constants["BATCH"], slots, *attended)
    return constants["STAGES"] * slot + scratch


THREADS = 32 * WARPS + PRODUCER_THREADS
"""Threads of a block."""


def build_of(constants: dict[str, Any]) -> nvrtc.Build:
    return nvrtc.Build.of(SOURCES / "decode.cu", constants)


def traced_build(program: Program, tuning: Tuning) -> nvrtc.Build:
    """The build that notes times. It takes the same arguments and as much shared memory as the one that does not."""
    return build_of(defines(program, replace(tuning, trace=True)))


def compile_kernel(constants: dict[str, Any]) -> Any:
    """The CuPy function for these constants."""
    return load(build_of(constants), constants)


def load(build: nvrtc.Build, constants: dict[str, Any]) -> Any:
    """The CuPy function of a build that takes as much shared memory as these constants say."""
    return nvrtc.load(build, "decode", shared_bytes(constants))


@dataclass(frozen=True)
class MegakernelBuild:
    """The proven programs of all ranks, and what their kernel is compiled with."""

    programs: list[Program]
    constants: dict[str, Any]


def build_layout(shape: ModelShape, layout: Layout, tuning: Tuning, beside: int = 1) -> MegakernelBuild:
    """The build of a layout for the current GPU and `beside` ranks on it, without pairs that do not fit. Raises
    InvalidProgram for programs that fail, ValueError without room for a ring.
    """
    built = programs(shape, layout)
    check_programs_once(*built)
    constants = defines(built[0], tuning)  # those of all ranks
    if (
        built[0].layout.pairs
        and 2 * max_active_pairs(compile_kernel(constants), constants) < beside * built[0].layout.sms
    ):
        return build_layout(shape, replace(layout, pairs=False), tuning, beside)
    return MegakernelBuild(built, constants)


def max_active_pairs(kernel: Any, constants: dict[str, Any]) -> int:
    """How many pairs of SMs, which are clusters, the GPU holds at the same time."""
    return max_active_clusters(2, THREADS, shared_bytes(constants), kernel)
