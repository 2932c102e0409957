"""A plan's norms, long convolutions and packed projections, put into transformers' own modules."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from kernels.dtypes import DTYPE_NAMES
from kernels.model.bound_variants import BoundVariants
from kernels.model.layer_weights import join_tensors
from kernels.model.striped_hyena import CONVOLUTIONS, LongConvolution, ShortConvolution
from kernels.ops import RmsNormCase

GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Projections that share an input, by the names in transformers' model families."""

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def install_norms(model: nn.Module, variants: BoundVariants) -> int:
    """Replaces the modules that compute a plain RMSNorm by the planned ones. Returns how many."""
    norms = [module for module in model.modules() if _is_rms_norm(module)]
    for module in norms:
        module.forward = _norm_forward(module, variants)  # type: ignore[method-assign, assignment]
    return len(norms)


def _epsilon(module: nn.Module) -> float | None:
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    return float(epsilon) if isinstance(epsilon, float) else None


@torch.no_grad()
def _is_rms_norm(module: nn.Module) -> bool:
    """Whether the module computes x / rms(x) · weight; some families add 1 to the weight or normalise otherwise."""
    weight = getattr(module, "weight", None)
    eps = _epsilon(module)
    if not type(module).__name__.endswith("RMSNorm") or not isinstance(weight, Tensor) or eps is None:
        return False
    x = torch.linspace(-2, 3, len(weight), device=weight.device).to(weight.dtype)[None]
    wide = x.float()
    expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()
    return bool(torch.allclose(module(x).float(), expected, rtol=2e-2, atol=1e-2))


def _norm_forward(module: Any, variants: BoundVariants) -> Callable[[Tensor], Tensor]:
    eps, original = _epsilon(module), module.forward

    def forward(x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        case = RmsNormCase(m=len(rows), n=rows.shape[1], dtype=DTYPE_NAMES[x.dtype])
        bound = variants.planned(case)
        return original(x) if bound is None else bound.function(rows, module.weight, eps=eps).view(x.shape)

    return forward


def install_convolutions(model: nn.Module, variants: BoundVariants) -> None:
    """Has the causal convolutions that a variant is planned for computed by it."""
    for module in model.modules():
        if isinstance(module, CONVOLUTIONS):
            module.forward = _convolution_forward(module, variants)  # type: ignore[method-assign, assignment]


def _convolution_forward(module: LongConvolution | ShortConvolution, variants: BoundVariants) -> Callable[..., Tensor]:
    original: Callable[..., Tensor] = module.forward

    @torch.compiler.disable
    def forward(u: Tensor, *gates: Tensor) -> Tensor:
        bound = variants.planned(module.case(u))
        if bound is None:
            return original(u, *gates)
        taps = variants.pack(bound, module.taps(u.shape[-1]))
        out: Tensor = bound.function(u.contiguous(), taps, *(gate.contiguous() for gate in gates))
        return out

    return forward


def pack_projections(model: nn.Module, linear: Linear, is_planned: Callable[[int, int], bool]) -> int:
    """One product of the projections of one input, unless variants are planned for theirs; how many were packed."""
    count = 0
    for owner in model.modules():
        for names in GROUPS:
            modules = [getattr(owner, name, None) for name in names]
            if _can_pack(modules) and not any(is_planned(*module.weight.shape) for module in modules):  # type: ignore[union-attr]
                _Packed(modules, linear)
                count += 1
    return count


def _can_pack(modules: list[Any]) -> bool:
    if any(type(module) is not nn.Linear for module in modules):
        return False
    return len({(module.in_features, module.bias is None) for module in modules}) == 1


class _Packed:
    """The group's first module computes the product for all, as long as all receive the very same tensor."""

    def __init__(self, modules: list[Any], linear: Linear) -> None:
        self._modules, self._linear = modules, linear
        self._sizes = [len(module.weight) for module in modules]
        (self._weight,) = join_tensors(modules, "weight", pack=True)
        (self._bias,) = join_tensors(modules, "bias", pack=True)
        self._x: Tensor | None = None
        self._parts: tuple[Tensor, ...] = ()
        self._separate = False
        for index, module in enumerate(modules):
            module.forward = self._forward(index)

    def _forward(self, index: int) -> Callable[[Tensor], Tensor]:
        module, last = self._modules[index], index == len(self._modules) - 1

        def forward(x: Tensor) -> Tensor:
            if index and self._x is not x:
                self._separate = True
            if self._separate:
                return self._linear(x, module.weight, module.bias)
            if index == 0:
                self._x, self._parts = x, self._linear(x, self._weight, self._bias).split(self._sizes, dim=-1)
            part = self._parts[index]
            if last:
                self._x, self._parts = None, ()
            return part

        return forward
