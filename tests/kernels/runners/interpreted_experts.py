"""Tests of the routing in Triton, to be run in Triton's interpreter by `test_experts.py`."""

import pytest
import torch

from kernels.model import experts, experts_triton
from kernels.model.decoder import Decoder
from kernels.model.experts import Experts
from tests.kernels.runners.engine_models import SPARSE
from tests.kernels.runners.planned_models import load


def layer_of(count: int, chosen: int, normalised: bool, rounded: bool) -> Experts:
    return Experts(*(torch.empty(count, 1) for _ in range(3)), chosen, normalised, rounded)


def logits_of(tokens: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(tokens, count, generator=torch.Generator().manual_seed(tokens)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("tokens", "count", "chosen", "normalised"), [(1, 40, 6, True), (5, 8, 3, False), (3, 20, 4, True), (3, 2, 2, True)]
)
def test_it_chooses_and_orders_as_torch_does(tokens, count, chosen, normalised, dtype):
    w, logits = layer_of(count, chosen, normalised, dtype == torch.float16), logits_of(tokens, count, dtype)
    shares, numbers = experts_triton.route(logits, w)
    wanted, expected = experts.route(logits, w)
    torch.testing.assert_close(shares, wanted, atol=1e-3 if w.rounded else 1e-6, rtol=1e-5)
    assert shares.dtype == torch.float32
    result = numbers.long()
    best = logits.float().gather(1, expected)  # equal logits may come in another order
    assert torch.equal(logits.float().gather(1, result), best)
    assert all(len(set(row)) == chosen for row in result.tolist())
    order = experts.order_by_expert(result, count)
    for one, other in zip(experts_triton.order_by_expert(numbers, count), order, strict=True):
        assert torch.equal(one, other)
    together, places = experts_triton.route_and_order(logits, w)
    assert torch.equal(together, shares)
    for one, other in zip(places, order, strict=True):
        assert torch.equal(one, other)


def test_the_order_of_more_rows_than_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts_triton, "BLOCKS", (16, 16))
    w, logits = layer_of(6, 3, True, False), logits_of(33, 6, torch.float32)
    logits[:, 2] = -50  # an expert without rows
    _, numbers = experts_triton.route(logits, w)
    for one, other in zip(
        experts_triton.order_by_expert(numbers, 6), experts.order_by_expert(numbers.long(), 6), strict=True
    ):
        assert torch.equal(one, other)


def test_logits_that_are_no_numbers_choose_experts_that_there_are() -> None:
    logits = torch.full((2, 5), float("nan"))
    logits[1, :4] = torch.tensor([1.0, 3.0, float("nan"), 2.0])
    _, numbers = experts_triton.route(logits, layer_of(5, 2, True, False))
    assert 0 <= int(numbers.min()) <= int(numbers.max()) < 5
    order = experts_triton.order_by_expert(numbers, 5)
    assert order.offs[-1] == 4
    assert sorted(order.inverse.flatten().tolist()) == [0, 1, 2, 3]
    _, order = experts_triton.route_and_order(logits, layer_of(5, 2, True, False))
    assert order.offs[-1] == 4
    assert sorted(order.inverse.flatten().tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", SPARSE)
def test_a_layer_is_that_of_transformers(name: str) -> None:
    model = load(name)
    w = Decoder(model).layers[0].mlp
    assert isinstance(w, Experts)
    x = torch.randn(11, 64, generator=torch.Generator().manual_seed(4))
    output = experts.apply_experts(x, w, experts.products_of(w, experts.torch_grouped), experts_triton.ROUTING)
    expected = model.model.layers[0].mlp(x[None])[0].view(output.shape)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-4)
