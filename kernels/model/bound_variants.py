"""The variants that a plan names, found by case. Each is built once and packs each weight once."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kernels import registry
from kernels.hardware import Gpu
from kernels.ops import TORCH_VARIANTS, Case, case_from
from kernels.plan import PlannedOp

SIZES = ("m", "rows", "batch", "q_len", "kv_len", "length", "filter")
"""Fields of a case in which a variant planned for one value may serve another."""
LOWERED = ("weights",)
"""Fields of a case that a lossy variant changes. A call is looked up by the precision of the model itself."""


@dataclass(frozen=True)
class BoundVariant:
    """A variant built for one case. `distance` from the planned one: the sum of |ln(size ratio)|."""

    variant: registry.Variant
    case: Case
    params: dict[str, Any]
    function: Callable[..., Any]
    distance: float


Packed = dict[tuple[Any, ...], tuple[Any, ...]]
"""Packed weights by (original tensors, form). The tensors are kept alive."""


class BoundVariants:
    """The planned variants, bound to calls of any size. Where no planned variant can serve, torch's own does."""

    def __init__(self, ops: Iterable[PlannedOp], gpu: Gpu, packed: Packed | None = None) -> None:
        """`packed` holds packed weights that other passes of the model share; it is extended."""
        self.gpu = gpu
        self._planned: dict[tuple[Any, ...], list[PlannedOp]] = {}
        self._found: dict[str, BoundVariant | None] = {}
        self._packed: Packed = {} if packed is None else packed
        for op in ops:
            self._planned.setdefault(_kind(case_from.validate_python(op.case)), []).append(op)

    def __bool__(self) -> bool:
        """Whether anything is planned."""
        return bool(self._planned)

    @property
    def names(self) -> set[str]:
        """The variants that calls were bound to."""
        return {bound.variant.name for bound in self._found.values() if bound is not None}

    @property
    def lossy(self) -> bool:
        """Whether any planned variant lowers the precision of the weights."""
        return any(registry.variant(op.variant).lossy for ops in self._planned.values() for op in ops)

    def planned(self, case: Case) -> BoundVariant | None:
        """The planned variant that serves the case and is nearest to it; None if no planned variant serves it."""
        if case.key not in self._found:
            self._found[case.key] = self._nearest(case)
        return self._found[case.key]

    def bound(self, case: Case) -> BoundVariant:
        """The planned variant, or else torch's own. Raises ValueError when torch has none for the case."""
        planned = self.planned(case)
        if planned is not None:
            return planned
        for name in TORCH_VARIANTS:
            variant = registry.variant(name)
            if variant.op == case.op and variant.serves(case, self.gpu) is None:
                bound = BoundVariant(variant, case, {}, self.built(variant, case, {}), math.inf)
                self._found[case.key] = bound
                return bound
        raise ValueError(f"torch has no variant for {case.key}")

    def built(self, variant: registry.Variant, case: Case, params: dict[str, Any]) -> Callable[..., Any]:
        return variant.build(case, params)

    def pack(self, bound: BoundVariant, weight: Tensor, norm: Tensor | None = None) -> Any:
        """The weight [n, k], times `norm` [k], as the variant packs it: once for all that pack it alike."""
        packing = bound.variant.packing(bound.case, bound.params)
        slot = (weight.data_ptr(), packing, 0 if norm is None else norm.data_ptr())
        if slot not in self._packed:
            folded = weight if norm is None else fold_norm(weight, norm)
            self._packed[slot] = (bound.variant.pack(bound.case, bound.params, folded), weight, norm)
        return self._packed[slot][0]

    def rounded(self, bound: BoundVariant, weight: Tensor, x: Tensor) -> Tensor:
        """The weight rounded to the bound variant's precision; the weight itself where that is not lossy."""
        if not bound.variant.lossy:
            return weight
        weights: Tensor = bound.variant.rounded(bound.case, bound.params, {"x": x, "w": weight})["w"]
        return weights.to(weight.dtype)

    def _nearest(self, case: Case) -> BoundVariant | None:
        near = sorted(self._planned.get(_kind(case), []), key=lambda op: _distance(case, op.case))
        for op in near:
            variant = registry.variant(op.variant)
            target = case.model_copy(update={name: op.case[name] for name in LOWERED if name in op.case})
            if variant.serves(target, self.gpu) is None:
                params = variant.resized(target, op.params)
                function = self.built(variant, target, params)
                return BoundVariant(variant, target, params, function, _distance(case, op.case))
        return None


def fold_norm(weight: Tensor, norm: Tensor) -> Tensor:
    """weight [n, k] · norm [k], rounded once; the weight itself where the norm changes nothing."""
    if bool((norm == 1).all()):
        return weight
    return (weight.float() * norm.float()).to(weight.dtype)


def _kind(case: Case) -> tuple[Any, ...]:
    return tuple(pair for pair in case.model_dump().items() if pair[0] not in (*SIZES, *LOWERED))


def _distance(case: Case, planned: dict[str, Any]) -> float:
    """The sum of |ln(size ratio)| over the sizes of two cases."""
    pairs = ((getattr(case, name), planned[name]) for name in SIZES if name in planned)
    return sum(abs(math.log(max(1, one) / max(1, other))) for one, other in pairs)
