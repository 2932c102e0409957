"""Tests of the server's Triton kernels, to be run in Triton's interpreter by `test_interpreted.py`."""

from typing import Any

import pytest
import torch

from kernels.attention.decode_call import DecodeCall
from kernels.hardware import GPUS
from kernels.model.decoder import Decoder
from kernels.ops.sampling import Sampling, sample_token
from kernels.plan import KvCacheDtype, PlannedOp
from kernels.server.execution import sampling_triton
from kernels.server.execution.backend import KernelsBackend, block_of
from kernels.server.execution.embed_triton import embed_rows
from kernels.server.execution.megakernel_backend import move_rows
from kernels.server.execution.ops import packed_cases
from kernels.server.execution.rows_triton import move
from kernels.server.execution.sampling_triton import Settings, draw_rows
from kernels.server.scheduler.batching import Scheduler, SchedulerLimits
from kernels.server.scheduler.requests import Request
from tests.kernels.runners.engine_models import load

VOCAB = 300


def drawn(logits: torch.Tensor, hows: list[Sampling], indices: list[int]) -> list[int]:
    def of(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([getattr(how, name) for how in hows], dtype=dtype)

    fields = Settings(
        temperature=of("temperature", torch.float32),
        top_p=of("top_p", torch.float32),
        top_k=of("top_k", torch.int64),
        seed=torch.tensor([how.seed - (1 << 64 if how.seed >> 63 else 0) for how in hows]),
        stream=of("stream", torch.int64),
        place=torch.tensor(indices),
        target=torch.arange(len(hows)).flip(0),
    )
    out, last = (torch.full((len(hows),), -1) for _ in range(2))
    draw_rows(logits, fields, out, last)
    assert last.flip(0).tolist() == out.tolist()
    return out.tolist()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_triton, "BLOCK", 128)


def test_draws_what_the_reference_draws() -> None:
    """Of float32; the test of a grammar's tokens has float16."""
    hows = [
        Sampling(), Sampling(1.0, seed=1 << 63 | 12345, stream=7), Sampling(0.7, top_k=5, seed=2),
        Sampling(1.3, top_p=0.8, seed=3, stream=(1 << 32) - 1), Sampling(0.9, top_k=40, top_p=0.5, seed=4),
        Sampling(2.0, top_k=1, seed=5), Sampling(100.0, seed=6), Sampling(1.0, top_k=VOCAB, top_p=0.01, seed=8),
    ]  # fmt: skip
    logits = 3 * torch.randn(len(hows), VOCAB, generator=torch.Generator().manual_seed(1))
    indices = list(range(len(hows)))
    expected = [sample_token(row, how, at) for row, how, at in zip(logits.numpy(), hows, indices, strict=True)]
    assert drawn(logits, hows, indices) == expected


def test_equal_logits_and_nan() -> None:
    logits = torch.zeros(3, VOCAB)
    logits[0, 200:202] = 2
    logits[1] = float("nan")
    logits[2, 5], logits[2, 9] = float("nan"), 1
    assert drawn(logits, [Sampling()] * 3, [0, 0, 0]) == [200, 0, 9]


def test_a_token_that_a_grammar_bars_is_never_drawn() -> None:
    logits = torch.full((4, VOCAB), float("-inf"), dtype=torch.float16)
    logits[:, [3, 150, 299]] = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float16)
    hows = [Sampling(), Sampling(1.0, seed=1), Sampling(2.0, top_k=50, seed=2), Sampling(1.0, top_p=0.5, seed=3)]
    expected = [sample_token(row, how, 9) for row, how in zip(logits.float().numpy(), hows, strict=True)]
    assert drawn(logits, hows, [9] * 4) == expected
    assert {*expected} <= {3, 150, 299}


def test_embeds_what_is_given_or_the_newest_of_a_slot() -> None:
    table, last = torch.randn(50, 3000), torch.tensor([7, 49, 3])
    given, source = torch.tensor([5, 0, 0, 11]), torch.tensor([-1, 1, 0, -1])
    assert torch.equal(embed_rows(given, source, last, table), table[[5, 49, 7, 11]])


def test_moves_rows_of_every_layer_as_torch_does() -> None:
    pages = [torch.randn(3, 5, 4, 2, 8) for _ in range(2)]
    own, expected = ([torch.zeros(3, 2, 9, 2, 8) for _ in range(2)] for _ in range(2))
    at = torch.tensor([[19, 0, 7, 8], [17, 2, 0, 9]])
    move(at, pages, own)
    move_rows(at, pages, expected)
    assert bool(own[0].any())
    assert all(map(torch.equal, own, expected))


def logits_of_a_mixed_pass(
    model: Any, variant: str | None, monkeypatch: pytest.MonkeyPatch, kv_cache_dtype: KvCacheDtype = "auto"
) -> torch.Tensor:
    """Of two decodes beside two chunks, one of which is padded, with attention by the variant (None: torch's)."""
    decoder = Decoder(model)
    block = block_of(decoder, kv_cache_dtype)
    limits = SchedulerLimits(40, 8, 4, 64, 4 * block, block, mixed=(2,), kv_cache_dtype=kv_cache_dtype)
    backend, scheduler = KernelsBackend(decoder, GPUS["h200"], limits), Scheduler(limits)

    def ops(shape):
        cases = packed_cases(decoder, shape, 8, backend.state.positions, backend._usable) if variant else []
        result = [case.model_dump() for case in cases if case.op == "attention"]
        return {"only": [PlannedOp(op="attention", case=case, variant=variant) for case in result]}

    monkeypatch.setattr(backend, "_arrangements", ops)
    for prompts in ((5, 3), (block, 6)):
        for length in prompts:
            scheduler.add(Request(str(length), list(range(length)), 9))
        step = scheduler.next_step()
        assert step is not None
        backend.launch(step)
        scheduler.commit(step, *backend.read())
    assert (len(step.decodes), len(step.prefill_chunks)) == (2, 2)
    (outcome,) = [each.one_pass for shape, each in backend._captured.items() if shape.decodes and shape.blocks]
    return outcome.logits[: len(step.parts)]


@pytest.mark.parametrize(("kv_cache_dtype", "error"), [("auto", 1e-2), ("fp8", 4e-2)])
def test_both_calls_of_attention_write_into_one_output(kv_cache_dtype, error, monkeypatch: pytest.MonkeyPatch) -> None:
    """fp8 rounds some later keys to a neighbour; pages in fp16 differ from these ten times as much."""
    model = load("qwen2", dtype="fp16", seed=1)
    expected = logits_of_a_mixed_pass(model, None, monkeypatch, kv_cache_dtype)
    call, written = DecodeCall.__call__, []

    def noted(self: DecodeCall, *args: Any, out: torch.Tensor, **scales: torch.Tensor) -> torch.Tensor:
        written.append(out.untyped_storage().data_ptr())
        return call(self, *args, out=out, **scales)

    monkeypatch.setattr(DecodeCall, "__call__", noted)
    logits = logits_of_a_mixed_pass(model, "decode_split", monkeypatch, kv_cache_dtype)
    torch.testing.assert_close(logits, expected, rtol=1e-2, atol=error)
    last = written[-2 * len(model.model.layers) :]
    assert last[::2] == last[1::2]
