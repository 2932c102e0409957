"""Calls of built variants: what is kept of one, what makes another, and which memory the outputs are."""

import gc
import weakref
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from kernels.attention.step_hopper_call import contiguous_layout
from kernels.cuda import call
from kernels.cuda.call import (
    CALLS_KEPT,
    OUTPUTS_KEPT,
    BoundedCache,
    CudaCall,
    Prepared,
    Workspace,
    layout,
    pointers,
    size,
    size_and_strides,
)
from kernels.gemm.hopper_call import _with_contiguous_scales


class Doubled(CudaCall):
    """y = 2 x, by a launch that writes through the addresses that it packed."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[bool] = []
        self.bound = 0

    def _prepare(self, check: bool, stream: int, out: Any, x: Tensor, scale: float = 2.0) -> Prepared:
        self.prepared.append(check)
        if check and x.dtype != torch.float32:
            raise ValueError(f"x is {x.dtype}, not torch.float32")
        shape, strides, offset, held = x.shape, x.stride(), x.storage_offset(), weakref.ref(x.untyped_storage())

        def bind(y: Tensor) -> Any:
            self.bound += 1
            target = weakref.ref(y)

            def launch() -> None:
                source = torch.empty(0).set_(held(), offset, shape, strides)
                target().copy_(scale * source)  # type: ignore[union-attr]

            return launch

        return Prepared(partial(torch.empty, *shape), bind)


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Doubled:
    monkeypatch.setattr(call, "_has_gpu", lambda: True)
    monkeypatch.setattr(call, "current_stream", lambda: (0, 7))
    return Doubled()


def test_a_second_call_prepares_nothing_and_new_outputs_need_no_new_check(doubled: Doubled) -> None:
    x, out = torch.arange(6.0).view(2, 3), torch.empty(2, 3)
    assert doubled(x, out=out) is out
    x += 1
    assert torch.equal(doubled(x, out=out), 2 * x)
    assert doubled.prepared == [True]
    assert doubled.bound == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="x is torch"):
            doubled(torch.arange(6))


def test_new_outputs_need_no_new_check(doubled: Doubled) -> None:
    x = torch.arange(6.0)
    held = [doubled(x) for _ in range(3)]
    assert all(torch.equal(item, 2 * x) for item in held)
    assert len({item.data_ptr() for item in held}) == 3
    assert doubled.prepared == [True]


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.view(4, 3), lambda x: x.view(6, 2).T, lambda x: x[:1], lambda x: x.view(torch.int32),
        lambda x: x[:, 1:],
    ],
    ids=["shape", "strides", "fewer rows", "dtype", "pointer"],
)  # fmt: skip
def test_an_address_that_is_used_again_is_checked_and_packed_anew(doubled: Doubled, other: Any) -> None:
    x = torch.arange(12.0).view(2, 6)
    doubled(x)
    again = other(x)
    if again.dtype != x.dtype:
        with pytest.raises(ValueError, match="x is torch"):
            doubled(again)
        return
    assert torch.equal(doubled(again), 2 * again)
    assert doubled.prepared == [True, True]


def test_other_values_outputs_streams_and_devices_are_other_calls(doubled, monkeypatch):
    x = torch.arange(6.0)
    doubled(x)
    assert torch.equal(doubled(x, 3.0), 3 * x)
    assert torch.equal(doubled(x, scale=4.0), 4 * x)
    assert torch.equal(doubled(x, out=torch.empty(6)), 2 * x)
    for place in ((0, 8), (1, 7)):
        monkeypatch.setattr(call, "current_stream", lambda place=place: place)
        doubled(x)
    assert len(doubled.prepared) == 6


def test_an_unchecked_call_is_not_checked_and_knows_its_arguments_again(doubled: Doubled) -> None:
    x, out = torch.arange(6.0).view(2, 3), torch.empty(2, 3)
    for _ in range(2):
        assert doubled.unchecked(x, out=out) is out
    assert doubled.prepared == [False]
    assert torch.equal(doubled.unchecked(x.view(3, 2), out=out.view(3, 2)), 2 * x.view(3, 2))
    doubled(x, out=out)
    assert doubled.prepared == [False, False, True]


class Rows(NamedTuple):
    x: Tensor
    seen: Tensor | None


@pytest.mark.parametrize("read", [pointers, size, size_and_strides, layout])
def test_a_key_tells_addresses_and_values_apart_wherever_they_lie(read: Any) -> None:
    x, other = torch.zeros(2, 6), torch.zeros(2, 6)
    different = [(x,), (other,), (None,), (1.5,), ((x, other),), ((other, x),), (Rows(x, None),), (Rows(x, x[:1]),)]
    assert len({read(item) for item in different}) == len(different)
    assert read(([x, other],)) == read(((x, other),))
    assert read((torch.nn.Parameter(x, requires_grad=False),)) == read((x,))
    assert read((Rows(x, x),)) != read((Rows(x, x[:1]),))


@pytest.mark.parametrize(("read", "same"), [(pointers, True), (size, False), (size_and_strides, False)])
def test_only_the_key_of_fixed_shapes_leaves_the_size_out(read: Any, same: bool) -> None:
    x = torch.zeros(2, 6)
    assert (read((x,)) == read((x[:1],))) is same


def test_keys_tell_right_calls_apart() -> None:
    """Of fp8 products: rows, strides, operands, scales and biases; of a decode step: arguments, capacity, positions."""
    x, w, scales, bias = torch.zeros(4, 32), torch.zeros(2, 6, 32), torch.zeros(2, 6, 1), torch.zeros(2, 6)
    calls = [
        (out, (rows, scales[at, : len(out)]), (value[:, :16], scales[of]), *rest)
        for out in (torch.zeros(4, 6), torch.zeros(2, 6))
        for rows in (x[: len(out), :16], x.view(8, 16)[: len(out)])
        for at, of in ((0, 0), (0, 1), (1, 0))
        for value in (w[0], w[1])
        for rest in ((), (bias[0],), (bias[1],))
    ]
    assert len({_with_contiguous_scales(item) for item in calls}) == len(calls)
    memory = torch.zeros(2, 4096)
    first = [memory[0, 64 * at : 64 * at + 64] for at in range(7)]
    calls = [[each if at != other else each + 0 for at, each in enumerate(first)] for other in range(7)]
    longer = [*first[:4], memory[0, 256:384], memory[0, 320:448], first[6]]
    one_position = [*first[:6], first[6][:1]]
    result = {contiguous_layout(value) for value in (first, *calls, longer, one_position)}
    assert len(result) == 10
    assert contiguous_layout([*first, None]) == contiguous_layout(first)


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(doubled: Doubled) -> None:
    x = torch.zeros(CALLS_KEPT + 10)
    for at in range(CALLS_KEPT + 10):
        doubled(x[at:])
    assert len(doubled._calls) == CALLS_KEPT
    outputs = [doubled(x) for _ in range(OUTPUTS_KEPT + 3)]
    assert all(len(entry.bound) <= OUTPUTS_KEPT for entry in doubled._calls._entries.values())
    assert len(outputs) == OUTPUTS_KEPT + 3
    kept: BoundedCache[int] = BoundedCache(2)
    for key in ("a", "b", "b", "c"):
        kept.keep(key, 1)
    assert [kept.get(key) for key in ("a", "b", "c")] == [None, 1, 1]


def test_no_argument_or_output_is_kept_alive(doubled: Doubled) -> None:
    x = torch.arange(6.0)
    y = doubled(x)
    gone = [weakref.ref(value) for value in (x, y)]
    del x, y
    gc.collect()
    assert [item() for item in gone] == [None, None]


@pytest.mark.gpu
def test_a_workspace_is_one_for_each_stream() -> None:
    workspace: Workspace[Tensor] = Workspace()
    first, again, other = (workspace.take(stream, partial(torch.empty, 4, device="cuda")) for stream in (1, 1, 2))
    assert first is again
    assert first is not other
