from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.unit_cost_basis import UnitCostBasis, check_unit_cost_basis
from ..models.unit_cost_key import UnitCostKey, check_unit_cost_key
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="UnitCost")


@_attrs_define
class UnitCost:
    """One price, in USD (of energy, in joules), before and after; None where it is not known or does not apply.

    Attributes:
        key (UnitCostKey):
        before (Interval | None):
        after (Interval | None):
        basis (UnitCostBasis | Unset):  Default: 'modelled'.
    """

    key: UnitCostKey
    before: Interval | None
    after: Interval | None
    basis: UnitCostBasis | Unset = "modelled"

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415

        key: str = self.key

        before: dict[str, Any] | None
        if isinstance(self.before, Interval):
            before = self.before.to_dict()
        else:
            before = self.before

        after: dict[str, Any] | None
        if isinstance(self.after, Interval):
            after = self.after.to_dict()
        else:
            after = self.after

        basis: str | Unset = UNSET
        if not isinstance(self.basis, Unset):
            basis = self.basis

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "key": key,
                "before": before,
                "after": after,
            }
        )
        if basis is not UNSET:
            field_dict["basis"] = basis

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        key = check_unit_cost_key(d.pop("key"))

        def _parse_before(data: object) -> Interval | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                before_type_0 = Interval.from_dict(data)

                return before_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None, data)

        before = _parse_before(d.pop("before"))

        def _parse_after(data: object) -> Interval | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                after_type_0 = Interval.from_dict(data)

                return after_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None, data)

        after = _parse_after(d.pop("after"))

        _basis = d.pop("basis", UNSET)
        basis: UnitCostBasis | Unset
        if isinstance(_basis, Unset):
            basis = UNSET
        else:
            basis = check_unit_cost_basis(_basis)

        unit_cost = cls(
            key=key,
            before=before,
            after=after,
            basis=basis,
        )

        return unit_cost
