"""Variants in Triton on a GPU: the driver's launches write what Triton's own launches write, bit for bit."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels import registry
from kernels.ops import AttentionCase, Case, GatedCase, RmsNormCase, RopeCase
from kernels.proof import inputs

pytestmark = pytest.mark.gpu

HEADS = {"head_dim": 64, "heads": 8, "kv_heads": 2}
CASES: list[tuple[str, Case, dict[str, Any]]] = [
    ("rmsnorm_triton", RmsNormCase(m=5, n=1000, residual=True), {"pdl": True}),
    ("rmsnorm_triton", RmsNormCase(m=16, n=1024, quantise="fp8"), {}),
    ("gated_triton", GatedCase(m=3, n=1000), {"pdl": True}),
    ("gated_triton", GatedCase(m=1, n=4096, activation="gelu"), {}),
    ("rope_triton", RopeCase(batch=2, q_len=3, **HEADS), {}),
    ("rope_triton", RopeCase(batch=1, q_len=1, append=True, **HEADS), {"pdl": True}),
    ("rope_triton", RopeCase(batch=2, q_len=3, append=True, paged=True, **HEADS), {}),
    ("rope_triton", RopeCase(batch=2, q_len=1, append=True, paged=True, kv_dtype="fp8", **HEADS), {"pdl": True}),
    ("flash_triton", AttentionCase(kind="prefill", batch=2, q_len=100, kv_len=100, **HEADS), {"pdl": True}),
    ("flash_triton", AttentionCase(kind="prefill", batch=1, q_len=90, kv_len=90, lengths=(50, 40), **HEADS), {}),
    ("decode_split", AttentionCase(kind="decode", batch=2, q_len=1, kv_len=500, **HEADS), {}),
]
IDS = [f"{name} {case.key}" for name, case, _ in CASES]


def shifted(each: Tensor) -> Tensor:
    """A copy that begins one element behind an aligned address."""
    return torch.empty(each.numel() + 1, dtype=each.dtype, device="cuda")[1:].view(each.shape).copy_(each)


def spread(each: Tensor) -> Tensor:
    """A copy with a gap of three elements behind each row."""
    *outer, last = each.shape
    return torch.empty(*outer, last + 3, dtype=each.dtype, device="cuda")[..., :last].copy_(each)


def variations(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments, and copies that Triton specialises otherwise: elsewhere, misaligned, with gaps."""
    yield arguments
    yield {name: each.clone() for name, each in arguments.items()}
    yield {name: shifted(each) for name, each in arguments.items()}
    yield {name: spread(each) if each.dim() > 1 else each for name, each in arguments.items()}
    for name in arguments:
        caches = ("k_cache", "v_cache")
        yield {other: shifted(each) if other == name or {other, name} <= {*caches} else each.clone()
               for other, each in arguments.items()}  # fmt: skip


def several(outputs: Any) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def written(outputs: Any, arguments: dict[str, Any]) -> list[Tensor]:
    """The bytes of all that a call writes: the outputs, and a cache that it appends to."""
    result = *several(outputs), *(arguments[name] for name in ("k_cache", "v_cache") if name in arguments)
    return [item.contiguous().view(torch.uint8).clone() for item in result]


def by_triton(name: str, case: Case, params: dict[str, Any], arguments: dict[str, Any]) -> list[Tensor]:
    """What a launch by Triton itself writes; the arguments stay."""
    from tests.kernels.cuda.triton_calls import prepared_calls

    copies = {name: torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda").copy_(each)
              if name.endswith("_cache") else each for name, each in arguments.items()}  # fmt: skip
    with pytest.MonkeyPatch.context() as monkeypatch:
        calls = prepared_calls(monkeypatch)
        outputs = registry.variant(name).build(case, params)(**copies)
        assert len(calls) == 1
    return written(outputs, copies)


def assert_equal(found: list[Tensor], expected: list[Tensor]) -> None:
    assert len(found) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(("name", "case", "params"), CASES, ids=IDS)
def test_the_driver_launches_what_triton_launches(name: str, case: Case, params: dict[str, Any]) -> None:
    function = registry.variant(name).build(case, params)
    drawn = inputs.draw(case, torch.device("cuda"), seed=1)  # type: ignore[arg-type]
    for arguments in [*variations(drawn), *variations(drawn)]:
        expected = by_triton(name, case, params, arguments)
        for _ in range(2):
            assert_equal(written(function(**arguments), arguments), expected)
        out = tuple(torch.full_like(tensor, 3.0) for tensor in several(function(**arguments)))
        out = out if len(out) > 1 else out[0]
        assert function.unchecked(**arguments, out=out) is out
        assert_equal(written(out, arguments), expected)


@pytest.mark.parametrize(("name", "case", "params"), CASES, ids=IDS)
def test_a_replay_reads_new_values(name: str, case: Case, params: dict[str, Any]) -> None:
    function = registry.variant(name).build(case, params)
    for arguments in variations(inputs.draw(case, torch.device("cuda"), seed=1)):  # type: ignore[arg-type]
        function(**arguments)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = function(**arguments)
        for seed in (2, 3):
            for given, new in zip(arguments.values(), inputs.draw(case, torch.device("cuda"), seed).values(),  # type: ignore[arg-type]
                                  strict=True):  # fmt: skip
                given.copy_(new)
            expected = by_triton(name, case, params, arguments)
            graph.replay()
            torch.cuda.synchronize()
            assert_equal(written(outputs, arguments), expected)


def test_other_sizes_and_dtypes_at_one_address() -> None:
    """One function, one address: sizes of 1 and of multiples of 16 are other kernels to Triton."""
    memory = torch.randn(1 << 16, device="cuda")
    function = registry.variant("rmsnorm_triton").build(RmsNormCase(m=4, n=64), {})
    for dtype in (torch.float16, torch.float32, torch.float16):
        for m, n, step in ((1, 64, 64), (16, 64, 64), (4, 1, 1), (4, 1, 16), (3, 33, 40), (16, 64, 65), (1, 64, 64)):
            x = memory.to(dtype).as_strided((m, n), (step, 1))
            y = function(x, x[0])
            expected = x.float() * torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-6) * x[0].float()
            torch.testing.assert_close(y.float(), expected, rtol=2e-3, atol=2e-3)
