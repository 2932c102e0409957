"""The variants that a plan names, looked up by the case at hand, each built once and each weight packed once."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kernels import registry
from kernels.hardware import Gpu
from kernels.ops import TORCH_VARIANTS, Case, case_from
from kernels.plan import PlannedOp

SIZES = ("m", "batch", "q_len", "kv_len")
"""Fields of a case in which a variant planned for one value may serve another."""
LOWERED = ("weights",)
"""Fields of a case that a lossy variant changes: a call is looked up by the precision that it has without one."""


@dataclass(frozen=True)
class BoundVariant:
    """One variant built for one case. `distance` is how far (in powers of e) the case is from the planned one."""

    variant: registry.Variant
    case: Case
    params: dict[str, Any]
    function: Callable[..., Any]
    distance: float


Packed = dict[tuple[Any, ...], tuple[Any, ...]]
"""Packed weights by the tensors and the variant that they were packed from and for; the tensors are kept alive."""


class BoundVariants:
    """The planned variants, bound to calls of any size; torch's own variant where nothing planned can serve."""

    def __init__(self, ops: Iterable[PlannedOp], gpu: Gpu, packed: Packed | None = None) -> None:
        """`packed` are weights that other parts of the same model have packed, to be shared and added to."""
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
    def lossy(self) -> bool:
        """Whether any planned variant lowers the precision of the weights."""
        return any(registry.variant(op.variant).lossy for ops in self._planned.values() for op in ops)

    def planned(self, case: Case) -> BoundVariant | None:
        """The planned variant nearest to the case that serves it; None where there is none."""
        if case.key not in self._found:
            self._found[case.key] = self._nearest(case)
        return self._found[case.key]

    def part(self, case: Case) -> BoundVariant:
        """The planned variant, or else torch's own. Raises ValueError when torch has none for the case."""
        found = self.planned(case)
        if found is not None:
            return found
        for name in TORCH_VARIANTS:
            variant = registry.variant(name)
            if variant.op == case.op and variant.serves(case, self.gpu) is None:
                made = BoundVariant(variant, case, {}, variant.build(case, {}), math.inf)
                self._found[case.key] = made
                return made
        raise ValueError(f"torch has no variant for {case.key}")

    def pack(self, part: BoundVariant, weight: Tensor, norm: Tensor | None = None) -> Any:
        """The weight [n, k] as the part takes it, once for all calls; `norm` [k] is folded in beforehand."""
        packing = part.variant.packing(part.case, part.params)
        slot = (weight.data_ptr(), part.variant.name, packing, 0 if norm is None else norm.data_ptr())
        if slot not in self._packed:
            folded = weight if norm is None else folded_in(weight, norm)
            self._packed[slot] = (part.variant.pack(part.case, part.params, folded), weight, norm)
        return self._packed[slot][0]

    def rounded(self, part: BoundVariant, weight: Tensor, x: Tensor) -> Tensor:
        """The weight's values as the part's precision holds them: the weight itself where nothing is lost."""
        if not part.variant.lossy:
            return weight
        found: Tensor = part.variant.rounded(part.case, part.params, {"x": x, "w": weight})["w"]
        return found.to(weight.dtype)

    def _nearest(self, case: Case) -> BoundVariant | None:
        near = sorted(self._planned.get(_kind(case), []), key=lambda op: _distance(case, op.case))
        for op in near:
            variant = registry.variant(op.variant)
            wanted = case.model_copy(update={name: op.case[name] for name in LOWERED if name in op.case})
            if variant.serves(wanted, self.gpu) is None:
                params = variant.resized(wanted, op.params)
                return BoundVariant(variant, wanted, params, variant.build(wanted, params), _distance(case, op.case))
        return None


def folded_in(weight: Tensor, norm: Tensor) -> Tensor:
    """weight [n, k] · norm [k], rounded once; the weight itself where the norm changes nothing."""
    if bool((norm == 1).all()):
        return weight
    return (weight.float() * norm.float()).to(weight.dtype)


def _kind(case: Case) -> tuple[Any, ...]:
    return tuple(pair for pair in case.model_dump().items() if pair[0] not in (*SIZES, *LOWERED))


def _distance(case: Case, planned: dict[str, Any]) -> float:
    """How far the sizes of two cases lie apart, in powers of e, summed."""
    pairs = ((getattr(case, name), planned[name]) for name in SIZES if name in planned)
    return sum(abs(math.log(max(1, one) / max(1, other))) for one, other in pairs)
