from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.price_point_basis import PricePointBasis, check_price_point_basis
from ..models.price_point_what import PricePointWhat, check_price_point_what

T = TypeVar("T", bound="PricePoint")


@_attrs_define
class PricePoint:
    """USD per thousand requests with one assumption changed: `what` is price, duty cycle, lengths or load.

    Attributes:
        what (PricePointWhat):
        value (str): the changed assumption in words
        before (float | None):
        after (float | None):
        basis (PricePointBasis):
    """

    what: PricePointWhat
    value: str
    before: float | None
    after: float | None
    basis: PricePointBasis

    def to_dict(self) -> dict[str, Any]:
        what: str = self.what

        value = self.value

        before: float | None
        before = self.before

        after: float | None
        after = self.after

        basis: str = self.basis

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "what": what,
                "value": value,
                "before": before,
                "after": after,
                "basis": basis,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        what = check_price_point_what(d.pop("what"))

        value = d.pop("value")

        def _parse_before(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        before = _parse_before(d.pop("before"))

        def _parse_after(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        after = _parse_after(d.pop("after"))

        basis = check_price_point_basis(d.pop("basis"))

        price_point = cls(
            what=what,
            value=value,
            before=before,
            after=after,
            basis=basis,
        )

        return price_point
