"""The Triton kernel compiles without spills, and refuses in a sentence. That it is right: interpreted_prefill.py."""

import pytest
import torch

from kernels import registry
from kernels.attention.flash_triton import ALL_KEYS, TILES, FlashTriton
from kernels.ops import AttentionCase
from kernels.proof import gate
from tests.kernels.triton_compiling import stack_bytes

BASE = AttentionCase(
    kind="prefill", head_dim=64, heads=2, kv_heads=1, batch=1, q_len=36, kv_len=36, dtype="fp16", kv_dtype="fp16"
)


def like(**changes):
    """The base case with these fields; both dtypes at once, and lengths with what follows from them."""
    if "dtype" in changes:
        changes["kv_dtype"] = changes["dtype"]
    if "lengths" in changes:
        changes |= {"batch": 1, "q_len": sum(changes["lengths"]), "kv_len": sum(changes["lengths"])}
    return AttentionCase(**BASE.model_dump() | changes)


@pytest.mark.parametrize(
    ("change", "tile"),
    [
        ({"head_dim": 64, "causal": False}, TILES[0][1][1]),
        ({"head_dim": 96, "window": 100, "sinks": True}, TILES[1][1][2]),
        ({"head_dim": 128, "lengths": (100, 200), "softcap": 30.0}, TILES[1][1][0]),
        ({"head_dim": 256}, TILES[2][1][0]),
        ({"head_dim": 128, "q_len": 128, "kv_len": 128}, ALL_KEYS[128]),
    ],
)
def test_it_compiles_for_hopper_without_spills(change, tile):
    from kernels.attention.forward_triton import attention_forward, config

    block_m, block_n, warps, stages = tile
    types = dict.fromkeys("qkv", ("*bf16", *("i32:16",) * 3)) | {"o": "*bf16", "tiles": ("*i32", "i32")}
    types |= {"shape": ("i32",) * 4, "score": ("fp32", "fp32", "*bf16")}
    constants = {"C": config(like(dtype="bf16", **change), block_m, block_n, pdl=True)}
    assert stack_bytes(attention_forward, types, constants, warps, stages) == 0


def test_a_tile_for_all_keys_is_offered_where_there_are_no_more():
    def offered(**change):
        return [tuple(params.values()) for params in FlashTriton().space(like(**change))]

    assert offered(head_dim=64, kv_len=128) == [*TILES[0][1], ALL_KEYS[64]]
    assert offered(head_dim=96, kv_len=100) == [*TILES[1][1], ALL_KEYS[128]]
    assert offered(head_dim=64, kv_len=129) == list(TILES[0][1])
    assert offered(head_dim=256, kv_len=64) == list(TILES[2][1])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("q", torch.zeros(1, 36, 2, 32, dtype=torch.float16)),
        ("k", torch.zeros(1, 36, 1, 64)),
        ("v", torch.zeros(1, 36, 1, 128, dtype=torch.float16)[..., ::2]),
        ("v", torch.zeros(1, 36, 1, 64, dtype=torch.float16, device="meta")),
    ],
)
def test_a_bad_argument_is_named(name, wrong):
    right = {"q": torch.zeros(1, 36, 2, 64, dtype=torch.float16)}
    right |= {character: torch.zeros(1, 36, 1, 64, dtype=torch.float16) for character in "kv"}
    with pytest.raises(ValueError, match=f"^{name} "):
        FlashTriton().build(BASE, {})(**right | {name: wrong})


@pytest.mark.parametrize("name", ["k", "v"])
def test_rows_too_far_apart_for_a_block_are_named(name):
    case = like(q_len=2, kv_len=2)
    drawn = {each: torch.zeros(1, 2, heads, 64, dtype=torch.float16) for each, heads in (("q", 2), ("k", 1), ("v", 1))}
    drawn[name] = torch.empty(2**25 + 64, dtype=torch.float16).as_strided((1, 2, 1, 64), (0, 2**25, 64, 1))
    with pytest.raises(ValueError, match=f"^{name} has rows 33554432 elements apart"):
        FlashTriton().build(case, {"block_n": 64})(**drawn)


@pytest.mark.gpu
def test_not_a_number_stays_in_its_sequence():
    case = like(lengths=(50, 70), dtype="bf16")
    q, k, v = (torch.randn(1, 120, heads, 64, device="cuda", dtype=torch.bfloat16) for heads in (2, 1, 1))
    expected = registry.variant("flash_triton").build(case, {})(q, k, v)
    for poisoned in (k, v):
        poisoned[0, 60] = torch.nan
    result = registry.variant("flash_triton").build(case, {})(q, k, v)
    assert torch.equal(result[:, :50], expected[:, :50])
    assert result[:, 60:].isnan().all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["flash_triton", "torch_varlen", "sdpa_math", "sdpa_mem_efficient"])
@pytest.mark.parametrize("causal", [True, False])
def test_packed_sequences_pass_the_gate(name, causal):
    case = like(lengths=(50, 1, 0, 170), causal=causal, dtype="bf16")
    report = gate.check(registry.variant(name), case, "cuda")
    assert report.passed, report.sentence
