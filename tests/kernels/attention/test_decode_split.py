"""decode_split: compiled for Hopper without spills, honest about its limits."""

import pytest

from kernels import registry
from kernels.cases import check_cases
from kernels.hardware import GPUS
from kernels.ops import AttentionCase
from kernels.proof import gate
from tests.kernels.triton_compiling import stack_bytes

BASE = AttentionCase(kind="decode", head_dim=64, heads=32, kv_heads=8, batch=8, q_len=1, kv_len=8192)
VARIANT = registry.variant("decode_split")


@pytest.mark.parametrize(
    "change",
    [
        {}, {"head_dim": 256, "kv_heads": 32}, {"head_dim": 96, "softcap": 30.0, "window": 1024},
        {"paged": True, "page_size": 16, "sinks": True, "heads": 64, "window": 128}, {"kv_dtype": "fp8"},
        {"q_len": 8, "heads": 64, "head_dim": 128}, {"kv_dtype": "fp8", "paged": True, "page_size": 16, "q_len": 8},
        {"kv_dtype": "fp8", "paged": True, "page_size": 16, "q_len": 8, "head_dim": 128},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_spilled(change):
    from kernels.attention.decode_triton import Config, decode, row_constants

    case = BASE.model_copy(update=change)
    fp8 = case.kv_dtype == "fp8"
    strides = ("i32:16",) * 3
    types = {
        "q": ("*bf16", *strides), "k": ("*fp8e4nv" if fp8 else "*bf16", *strides),
        "v": ("*i16" if fp8 else "*bf16", *strides), "o": ("*bf16", *strides), "scratch": ("*fp32", "*fp32", "*i32"),
        "cache": ("*i32", "i32:16", "i32", "i32:16", "*i32", "i32:16", "i32:16", "*fp32", "*fp32"),
        "score": ("fp32", "fp32", "*bf16"),
    }  # fmt: skip
    for tuning in VARIANT.space(case)[:1]:
        group = case.heads // case.kv_heads
        config = Config(
            BLOCK_N=tuning["block"], PAGE_SIZE=case.page_size or 0, Q_LEN=case.q_len, CAUSAL=case.q_len > 1,
            WINDOW=case.window or 0, SOFTCAP=case.softcap is not None, SINKS=bool(case.sinks),
            LENGTHS=case.paged, FP8=fp8, STAGES=tuning["stages"],
            **row_constants(case.q_len * group, group, case.head_dim, 16, tuning["warps"]),
        )  # fmt: skip
        assert stack_bytes(decode, types, {"C": config}, tuning["warps"], 3) == 0, tuning


def test_it_serves_what_it_says():
    assert VARIANT.serves(BASE, GPUS["a100"]) is None
    assert VARIANT.serves(BASE.model_copy(update={"kv_dtype": "fp8", "paged": True}), GPUS["h200"]) is None


@pytest.mark.parametrize(("lengths", "said"), [((1, 2), "2 lengths"), ((9000,) * 8, "none above 8192")])
def test_lengths_that_do_not_fit_the_case_are_refused(lengths, said):
    with pytest.raises(ValueError, match=said):
        AttentionCase(**BASE.model_dump() | {"kv_lengths": lengths})


@pytest.mark.gpu
def test_it_passes_the_gate_on_the_gpu():
    for case in check_cases("attention", cpu=False)[::5]:  # `check` takes them all
        if VARIANT.serves(case, GPUS["h200"]) is None:
            for params in VARIANT.space(case):
                report = gate.check(VARIANT, case, "cuda", params)
                assert report.passed, f"{case.key} {params}: {report.sentence}"


@pytest.mark.gpu
def test_captured_graphs_follow_the_position_and_agree_with_plain_calls():
    import torch

    case = BASE.model_copy(update={"batch": 1, "kv_len": 2048})
    call = VARIANT.build(case, {})
    q = torch.randn(1, 1, 32, 64, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, 1, 2048, 8, 64, device="cuda", dtype=torch.bfloat16)
    position = torch.zeros(1, dtype=torch.int64, device="cuda")
    call(q, k, v, position=position)
    graphs, outs = [torch.cuda.CUDAGraph() for _ in range(2)], []
    for graph in graphs:
        with torch.cuda.graph(graph):
            outs.append(call(q, k, v, position=position))
    for at in (0, 1, 63, 64, 700, 2047):
        position.fill_(at)
        for graph, out in reversed(list(zip(graphs, outs, strict=True))):
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, call(q, k, v, position=position))


CASE = AttentionCase(kind="decode", head_dim=64, heads=8, kv_heads=2, batch=3, q_len=1, kv_len=70)
LONG = AttentionCase(kind="decode", head_dim=128, heads=32, kv_heads=8, batch=1, q_len=1, kv_len=65_536)
NAMES = ("sdpa_flash_packed", "sdpa_cudnn_packed", "torch_flex_decode")


def test_packed_heads_are_attention() -> None:
    """By torch's flash kernel of a CPU, which the variant leaves to GPUs otherwise."""
    report = gate.check(registry.variant("sdpa_flash_packed"), CASE, "cpu")
    assert report.passed, report.sentence


@pytest.mark.parametrize("name", NAMES)
def test_they_are_peers_for_one_query_of_a_long_cache_on_a_gpu(name: str) -> None:
    variant = registry.variant(name)
    assert variant.peer
    assert variant.serves(LONG, GPUS["h200"]) is None
    assert variant.serves(LONG, GPUS["cpu"]) is not None
