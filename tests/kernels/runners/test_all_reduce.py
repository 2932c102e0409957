"""The sum over ranks: what it computes, that its kernels compile, and that GPUs sum as copies do."""

import re
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from kernels.model import all_reduce
from tests.kernels.compiling import compile_log

CPU = torch.device("cpu")


def drawn(ranks: int, m: int, hidden: int, devices: Sequence[torch.device]) -> tuple[list[Tensor], list[Tensor]]:
    """Streams, equal on all ranks, and partials."""
    chance = torch.Generator().manual_seed(m)
    stream = torch.randn(m, hidden, generator=chance).bfloat16()
    partials = [torch.randn(m, hidden, generator=chance).bfloat16() for _ in range(ranks)]
    return [stream.to(device) for device in devices], [
        own.to(each) for own, each in zip(partials, devices, strict=True)
    ]


def expected(streams: Sequence[Tensor], partials: Sequence[Tensor]) -> Tensor:
    total = streams[0].cpu().float()
    for partial in partials:
        total = total + partial.cpu().float()
    return total.bfloat16()


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_kernels_compile_without_spills_and_a_sum_by_copies_is_rounded_once(ranks: int) -> None:
    streams, partials = drawn(ranks, 5, 24, [CPU] * ranks)
    result = all_reduce.all_reduce([CPU] * ranks, 5, streams[0]).reduce(streams, partials)
    assert all(torch.equal(item, expected(streams, partials)) for item in result)
    build = all_reduce.build_of(ranks)
    log = compile_log(build.source, dict(build.defines))
    assert re.findall(r"(\d+) bytes spill", log) == ["0"] * 4
    assert all(int(item) <= 65536 // all_reduce.THREADS for item in re.findall(r"Used (\d+) registers", log))


def gpus(ranks: int) -> list[torch.device]:
    return [torch.device("cuda", number) for number in range(ranks)]


def on_gpus(*counts: int) -> list[object]:
    few = [pytest.mark.skipif(torch.cuda.device_count() < count, reason=f"needs {count} GPUs") for count in counts]
    names = {2: "two-gpus", 4: "four-gpus"}
    return [pytest.param(each, id=names[each], marks=mark) for each, mark in zip(counts, few, strict=True)]


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", on_gpus(2, 4))
def test_gpus_sum_as_copies_do(ranks: int) -> None:
    """Few and many rows in turns, over launches enough to use each half again."""
    adds = all_reduce.all_reduce(gpus(ranks), 300, torch.empty(1, 2048, dtype=torch.bfloat16))
    assert isinstance(adds, all_reduce.AllReduceByPeerAccess)
    for m in (1, 300, 7, 128, 3, 299) * 20:
        streams, partials = drawn(ranks, m, 2048, gpus(ranks))
        result = adds.reduce(streams, partials)
        assert all(torch.equal(item.cpu(), expected(streams, partials)) for item in result)
    adds.check()


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", on_gpus(2, 4))
def test_a_rank_that_does_not_come_is_named_and_the_next_sum_is_right(ranks, monkeypatch):
    monkeypatch.setattr(all_reduce, "TIMEOUT_NS", 20_000_000)
    adds = all_reduce.AllReduceByPeerAccess(gpus(ranks), 4, 2048)
    streams, partials = drawn(ranks, 4, 2048, gpus(ranks))
    alone = [adds._sum(rank, streams[rank], partials[rank]) for rank in range(ranks - 1)]
    assert all(item.isnan().any() for item in alone)
    with pytest.raises(RuntimeError, match=rf"GPU \d waited too long for a partial sum of GPU {ranks - 1}$"):
        adds.check()
    assert all(torch.equal(item.cpu(), expected(streams, partials)) for item in adds.reduce(streams, partials))
    adds.check()
