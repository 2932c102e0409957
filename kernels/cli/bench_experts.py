"""Mixtures in `bench decode`: routers that prefer some experts, and how many experts a step really reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from kernels.measure.pass_time import distinct
from kernels.model.experts import has_experts, router_of
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model_files.families import ExpertSizes, expert_sizes
from kernels.ops import MODEL_BYTES, ModelCase


@torch.no_grad()
def skew_routers(model: Any, skew: float) -> None:
    """Multiplies the rows of each router by e^(z · skew), z drawn from a normal distribution: experts whose logits vary
    more are chosen more often. Generated routers without it choose nearly evenly.
    """
    generator = torch.Generator().manual_seed(11)
    for layer in model.model.layers if has_experts(model.config) else ():
        router = router_of(layer.mlp).weight
        factors = torch.randn(len(router), 1, generator=generator).mul(skew).exp()
        router.mul_(factors.to(router))


class ChosenExperts:
    """How often the experts of each layer were chosen, and how many different ones at each position of a batch."""

    def __init__(self) -> None:
        self.counts: list[Tensor] = []
        self.distinct: list[float] = []

    def add(self, chosen: Tensor, batch: int, experts: int) -> None:
        """`chosen` [batch · positions, chosen] of one layer."""
        at_position = chosen.view(batch, -1, chosen.shape[-1]).transpose(0, 1).flatten(1)
        chosen_mask = torch.zeros(len(at_position), experts, device=chosen.device).scatter_(1, at_position, 1.0)
        self.distinct.append(float(chosen_mask.sum(1).mean()))
        self.counts.append(torch.bincount(chosen.flatten(), minlength=experts).float().cpu())

    @property
    def mean(self) -> float:
        """Different experts of a layer, in the mean."""
        return sum(self.distinct) / len(self.distinct)

    def share_of_most(self, part: float) -> float:
        """The share of the choices that fell on the most chosen `part` of a layer's experts, in the mean."""
        shares = []
        for counts in self.counts:
            busiest = counts.sort(descending=True).values[: max(1, round(part * len(counts)))]
            shares.append(float(busiest.sum() / counts.sum()))
        return sum(shares) / len(shares)


@contextmanager
def count_choices(model: Any, batch: int) -> Iterator[ChosenExperts]:
    """What the routers choose in passes over `batch` rows within the block; of a sharded model nothing is counted."""
    chosen_experts = ChosenExperts()

    def note(gate: Any, _: Any, given: Any) -> None:
        chosen_experts.add(given[2], batch, len(gate.weight))

    counts = has_experts(model.config) and not isinstance(model, TensorParallelModel)
    layers = model.model.layers if counts else ()
    hooks = [router_of(layer.mlp).register_forward_hook(note) for layer in layers]
    try:
        yield chosen_experts
    finally:
        for hook in hooks:
            hook.remove()


def with_experts(case: ModelCase, model: Any, chosen_experts: ChosenExperts) -> ModelCase:
    """The case with the bytes of the experts that its sequences chose, evenly where nothing was counted."""
    sizes = expert_sizes(model.config.to_dict())
    if not chosen_experts.counts or sizes is None:
        return with_even_experts(case, model.config.to_dict())
    with_bytes = _with_distinct(case, sizes, chosen_experts.mean)
    return with_bytes.model_copy(update={"top_tenth_share": round(chosen_experts.share_of_most(0.1), 3)})


def with_even_experts(case: ModelCase, config: dict[str, Any]) -> ModelCase:
    """The case with the bytes of the experts that its sequences choose where they choose evenly."""
    sizes = expert_sizes(config)
    return case if sizes is None else _with_distinct(case, sizes, distinct(sizes, case.batch))


def _with_distinct(case: ModelCase, sizes: ExpertSizes, mean: float) -> ModelCase:
    """The case with the bytes of so many different experts of each layer."""
    extra_bytes = (mean - sizes.top_k) * sizes.parameters * MODEL_BYTES[case.weights]
    counted = {"bytes_per_token": case.bytes_per_token + extra_bytes, "distinct_experts": round(mean, 2)}
    return case.model_copy(update=counted)
