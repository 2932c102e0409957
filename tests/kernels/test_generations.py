"""What is said of generations of GPUs that are not here: each Triton kernel compiles for them and fits."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernels import registry
from kernels.hardware import generation
from kernels.ops import AttentionCase
from tests.kernels.triton_compiling import Types, compiled, stack_bytes

ROOT = Path(__file__).parents[2]
SHARED_KIB = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
"""Shared memory of a block: CUDA C++ Programming Guide, *Technical Specifications per Compute Capability*."""
STEP = "i32:16"
DECODE = AttentionCase(kind="decode", head_dim=128, heads=32, kv_heads=8, batch=8, q_len=1, kv_len=8192)
others = pytest.mark.parametrize("sm", [80, 89, 100, 120])  # 86 is as 89; Hopper has tests of its own


def fits(kernel, types: dict[str, Types], constants, launch: tuple[int, int], sm: int) -> bool:
    """Whether the compiled kernel's shared memory is there on this generation. `launch` is its warps and stages."""
    return compiled(kernel, types, constants, *launch, sm=sm).metadata.shared <= SHARED_KIB[sm] * 1024


def decode_fits(sm: int, tuning) -> bool:
    from kernels.attention.decode_triton import Config, decode, row_constants

    strides = (STEP,) * 3
    types = {character: ("*bf16", *strides) for character in "qkvo"} | {"scratch": ("*fp32", "*fp32", "*i32")}
    types |= {"cache": ("*i32", STEP, "i32", STEP, "*i32", STEP, STEP, "*fp32", "*fp32")}
    types |= {"score": ("fp32", "fp32", "*bf16")}
    config = Config(
        BLOCK_N=tuning["block"], PAGE_SIZE=0, Q_LEN=1, CAUSAL=False, WINDOW=0, SOFTCAP=False, SINKS=False,
        LENGTHS=False, FP8=False, STAGES=tuning["stages"], **row_constants(4, 4, DECODE.head_dim, 16, tuning["warps"]),
    )  # fmt: skip
    return fits(decode, types, {"C": config}, (tuning["warps"], 3), sm)


@others
def test_some_params_of_decode_attention_fit(sm):
    variant = registry.variant("decode_split")
    assert variant.serves(DECODE, generation(sm)) is None
    assert decode_fits(sm, variant.space(DECODE)[-1])
    assert decode_fits(sm, variant.space(DECODE)[0]) == (SHARED_KIB[sm] > 102)


@others
def test_some_params_of_prefill_attention_fit(sm):
    from kernels.attention.forward_triton import attention_forward, config

    variant = registry.variant("flash_triton")
    case = DECODE.model_copy(update={"kind": "prefill", "q_len": 512, "kv_len": 512})
    assert variant.serves(case, generation(sm)) is None
    types = dict.fromkeys("qkv", ("*bf16", *(STEP,) * 3)) | {"o": "*bf16", "tiles": ("*i32", "i32")}
    types |= {"shape": ("i32",) * 4, "score": ("fp32", "fp32", "*bf16")}
    tile = variant.space(case)[-1]
    constants = {"C": config(case, tile["block_m"], tile["block_n"], pdl=sm >= 90)}
    assert fits(attention_forward, types, constants, (tile["warps"], tile["stages"]), sm)


@others
def test_the_fused_kernels_fit(sm):
    from kernels.fused.gated_triton import _gated
    from kernels.fused.rmsnorm_triton import Config as NormConfig
    from kernels.fused.rmsnorm_triton import _rmsnorm
    from kernels.fused.rope_triton import Config, _rope

    pdl = sm >= 90
    fixed = {"ACTIVATION": "silu", "BLOCK": 1024, "PDL": pdl}
    gated = {
        arg_name: {"gate_up": "*bf16", "y": "*bf16"}.get(arg_name, STEP)
        for arg_name in _gated.arg_names
        if arg_name not in fixed
    }
    assert fits(_gated, gated, fixed, (4, 1), sm)
    quantise = sm >= 89
    norm = dict.fromkeys(("x", "residual"), ("*bf16", STEP)) | {"w": "*bf16", "m": "i32", "n": STEP, "eps": "fp32"}
    norm |= {"out": ("*fp8e4nv", "*bf16", "*fp32") if quantise else ("*bf16",) * 3}
    config = NormConfig(RESIDUAL=True, QUANTISE=quantise, ROWS=1, BLOCK=2048, PDL=pdl)
    assert fits(_rmsnorm, norm, {"C": config}, (4, 1), sm)
    rope = dict.fromkeys("qkv", ("*bf16", STEP, STEP, STEP)) | {"angles": ("*bf16", STEP, STEP) * 2, "q_len": STEP}
    rope |= {"slots": ("*i64", STEP, "*i32", STEP, STEP, STEP, "*fp32", "*fp32")}
    for cache in ("*bf16", "*fp8e4nv") if sm >= 89 else ("*bf16",):
        rope["out"] = "*bf16", cache, cache, STEP, STEP, STEP
        constants = Config(HEADS=32, KV_HEADS=8, HALF=32, APPEND=True, PAGE_SIZE=16, SCALED=cache != "*bf16",
                           HEADS_BLOCK=32, KV_BLOCK=8, HALF_BLOCK=32, PDL=pdl)  # fmt: skip
        assert fits(_rope, rope, {"C": constants}, (4, 1), sm), cache


def test_the_table_says_which_generations_a_variant_serves():
    command = [sys.executable, "-m", "kernels", "list", "--generations"]  # a fresh process: tests register variants
    table = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "| `flash_triton` | yes | yes | yes | yes | yes | yes |" in table
    assert "| `gemm_hopper` | – | – | – | yes | – | – |" in table


def test_they_compile_for_hopper_without_spilling() -> None:
    from kernels.server.execution import embed_triton, rows_triton
    from kernels.server.execution.sampling_triton import BLOCK, MAX_SPLITS, WARPS, _parts, _pick

    types = {
        "rows": ("*bf16", "i32:16", "i32:16"),
        "settings": ("*fp32", "*fp32", "*i64", "*i64", "*i64", "*i64", "*i64"),
        "parts": ("*fp32", "*i32"),
        "splits": "i32",
    }
    constants = {"BLOCK": BLOCK}
    assert stack_bytes(_parts, types, constants, WARPS, 3) == 0
    assert (
        stack_bytes(
            _pick, types | {"to": ("*i64", "*i64")}, constants | {"PADDED_SPLITS": MAX_SPLITS, "BITS": 16}, WARPS, 3
        )
        == 0
    )
    embed = {"given": "*i64", "source": "*i64", "last": "*i64", "table": "*bf16", "out": "*bf16", "hidden": "i32:16"}
    assert stack_bytes(embed_triton._embed, embed, {"BLOCK": embed_triton.BLOCK}, embed_triton.WARPS, 3) == 0
    assert next(param for param in rows_triton._move.params if param.name == "count").do_not_specialize
    caches = "*bf16", "*bf16", "i64:16"
    move = {"at": "*i64", "count": "i32", "source": caches, "target": caches, "width": "i32:16"}
    assert stack_bytes(rows_triton._move, move, {"BLOCK": rows_triton.BLOCK}, rows_triton.WARPS, 3) == 0
