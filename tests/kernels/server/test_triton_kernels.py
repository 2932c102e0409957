"""The server's Triton kernels compile for a Hopper GPU."""

from tests.kernels.triton_compiling import stack_bytes


def test_they_compile_for_hopper_without_spilling() -> None:
    from kernels.server.execution import embed_triton, rows_triton
    from kernels.server.execution.sampling_triton import BLOCK, MOST_SPLITS, WARPS, _parts, _pick

    types = {
        "rows": ("*bf16", "i32:16", "i32:16"),
        "settings": ("*fp32", "*fp32", "*i64", "*i64", "*i64", "*i64", "*i64"),
        "parts": ("*fp32", "*i32"),
        "splits": "i32",
    }
    constants = {"BLOCK": BLOCK}
    assert stack_bytes(_parts, types, constants, WARPS, 3) == 0
    assert (
        stack_bytes(_pick, types | {"to": ("*i64", "*i64")}, constants | {"MOST": MOST_SPLITS, "BITS": 16}, WARPS, 3)
        == 0
    )
    embed = {"given": "*i64", "source": "*i64", "last": "*i64", "table": "*bf16", "out": "*bf16", "hidden": "i32:16"}
    assert stack_bytes(embed_triton._embed, embed, {"BLOCK": embed_triton.BLOCK}, embed_triton.WARPS, 3) == 0
    assert next(param for param in rows_triton._move.params if param.name == "count").do_not_specialize
    caches = "*bf16", "*bf16", "i64:16"
    move = {"at": "*i64", "count": "i32", "source": caches, "target": caches, "width": "i32:16"}
    assert stack_bytes(rows_triton._move, move, {"BLOCK": rows_triton.BLOCK}, rows_triton.WARPS, 3) == 0
