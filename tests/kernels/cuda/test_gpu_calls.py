"""Calls of the real variants on a GPU: known arguments, given outputs, addresses used again, streams and graphs."""

from typing import Any

import pytest
import torch

from kernels import registry
from kernels.ops import (
    AttentionCase,
    Case,
    GatedCase,
    GroupedCase,
    LinearCase,
    LmHeadCase,
    RmsNormCase,
    RopeCase,
    StepAttentionCase,
)
from kernels.proof import gate, inputs

pytestmark = pytest.mark.gpu

HEADS = {"head_dim": 128, "heads": 8, "kv_heads": 2, "batch": 1}
CASES: list[tuple[str, Case]] = [
    ("small_gemm", LinearCase(m=64, n=512, k=512, epilogue="residual")),
    ("skinny", LinearCase(m=1, n=512, k=512)),
    ("skinny_fp8", LinearCase(m=4, n=512, k=512, weights="fp8")),
    ("gemm_hopper", LinearCase(m=256, n=512, k=512, epilogue="bias")),
    ("gemm_hopper", LinearCase(m=256, n=512, k=512, epilogue="quantise")),
    ("gemm_hopper", LinearCase(m=130, n=508, k=512, epilogue="bias")),
    ("gemm_hopper_fp8", LinearCase(m=256, n=512, k=512, weights="fp8", scales="row")),
    ("grouped_hopper", GroupedCase(rows=256, experts=4, n=256, k=256)),
    ("lm_head_skinny", LmHeadCase(m=1, vocab=4096, k=512)),
    ("lm_head_skinny", LmHeadCase(m=5, vocab=4096, k=512)),
    ("lm_head_skinny", LmHeadCase(m=1, vocab=4096, k=512, sampling="top_k_p")),
    ("lm_head_skinny", LmHeadCase(m=5, vocab=4096, k=512, sampling="top_k_p")),
    ("flash_hopper", AttentionCase(kind="prefill", q_len=256, kv_len=256, **HEADS)),
    ("decode_hopper", AttentionCase(kind="decode", q_len=1, kv_len=2048, **HEADS)),
    ("decode_split", AttentionCase(kind="decode", q_len=1, kv_len=2048, **HEADS)),
    ("decode_split", AttentionCase(kind="decode", q_len=2, kv_len=500, kv_dtype="fp8", paged=True, **HEADS)),
    ("step_hopper", StepAttentionCase(kv_len=512, **HEADS)),
    ("flash_triton", AttentionCase(kind="prefill", q_len=256, kv_len=256, **HEADS)),
    ("rmsnorm_triton", RmsNormCase(m=4, n=512, residual=True)),
    ("rmsnorm_triton", RmsNormCase(m=4, n=512, residual=True, quantise="fp8")),
    ("gated_triton", GatedCase(m=4, n=512)),
    ("rope_triton", RopeCase(q_len=3, **HEADS)),
    ("rope_triton", RopeCase(q_len=1, append=True, **HEADS)),
    ("rope_triton", RopeCase(q_len=3, append=True, paged=True, kv_dtype="fp8", **HEADS)),
]
IDS = [f"{name} {case.key}" for name, case in CASES]


def built(name: str, case: Case, seed: int = 1) -> tuple[Any, dict[str, Any]]:
    variant = registry.variant(name)
    drawn = inputs.draw(case, torch.device("cuda"), seed=seed)
    return variant.build(case, {}), gate.pack(variant, case, {}, drawn)


def tensors(outputs: Any) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def poisoned(outputs: Any) -> Any:
    """Outputs of the same shapes and strides, every byte set."""
    result = tuple(
        torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")
        for tensor in tensors(outputs)
    )
    for item in result:
        item.untyped_storage().fill_(0x7F)
    return result if isinstance(outputs, tuple) else result[0]


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(tensors(one), tensors(other), strict=True):
        assert torch.equal(
            a.view(torch.uint8) if a.is_contiguous() else a, b.view(torch.uint8) if a.is_contiguous() else b
        )


@pytest.mark.parametrize(("name", "case"), CASES, ids=IDS)
def test_every_way_to_call_gives_the_same(name: str, case: Case) -> None:
    function, arguments = built(name, case)
    expected = function(**arguments)
    for _ in range(3):
        assert_same(function(**arguments), expected)
        for call in (function, function.unchecked):
            out = poisoned(expected)
            assert call(**arguments, out=out) is out
            assert_same(out, expected)
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        result = function(**arguments)
    other.synchronize()
    assert_same(result, expected)


@pytest.mark.parametrize(("name", "case"), CASES, ids=IDS)
def test_new_values_at_a_known_address_are_read(name: str, case: Case) -> None:
    function, arguments = built(name, case)
    function(**arguments)
    changed = next(name for name in ("q", "qkv", "gate_up", "x") if name in arguments)
    first = arguments[changed][0] if isinstance(arguments[changed], tuple) else arguments[changed]
    values = first.view(torch.uint8) if first.dtype == torch.float8_e4m3fn else first
    values.copy_(values.roll(1, -1))
    fresh = registry.variant(name).build(case, {})
    assert_same(function(**arguments), fresh(**arguments))


@pytest.mark.parametrize(("name", "case"), CASES, ids=IDS)
def test_a_captured_call_repeats_itself(name: str, case: Case) -> None:
    function, arguments = built(name, case)
    expected = function(**arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [function(**arguments) for _ in range(2)]
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    for output in outputs:
        assert_same(output, expected)


def test_an_address_that_is_freed_and_used_again_with_another_row_stride() -> None:
    case = LinearCase(m=256, n=256, k=512)
    function, arguments = built("gemm_hopper", case)
    memory = torch.randn(2 * 256 * 512, device="cuda").to(torch.bfloat16)
    dense, spread = memory[: 256 * 512].view(256, 512), memory.view(256, 1024)[:, :512]
    assert dense.data_ptr() == spread.data_ptr()
    for x in (dense, spread, dense, spread[:200], spread):
        expected = x.float() @ arguments["w"].float().T
        for out in (None, torch.empty(len(x), 256, dtype=torch.bfloat16, device="cuda")):
            result = function(x, arguments["w"], out=out)
            torch.testing.assert_close(result.float(), expected, rtol=2e-2, atol=0.5)
        out = torch.empty(len(x), 256, dtype=torch.bfloat16, device="cuda")
        torch.testing.assert_close(function.unchecked(x, arguments["w"], out=out), result, rtol=0, atol=0)


def test_a_wrong_output_is_named() -> None:
    function, arguments = built("skinny", LinearCase(m=1, n=512, k=512))
    with pytest.raises(ValueError, match="out has shape"):
        function(**arguments, out=torch.empty(1, 256, dtype=torch.bfloat16, device="cuda"))
    with pytest.raises(ValueError, match="out is torch"):
        function(**arguments, out=torch.empty(1, 512, device="cuda"))
    with pytest.raises(ValueError, match="out is on cpu"):
        function(**arguments, out=torch.empty(1, 512, dtype=torch.bfloat16))
