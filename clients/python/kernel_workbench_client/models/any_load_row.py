from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.load_price import LoadPrice


T = TypeVar("T", bound="AnyLoadRow")


@_attrs_define
class AnyLoadRow:
    """Before at one load; after at the same load, and at the cheapest of its loads that is no slower than before here.

    Either of after is None where no such load was measured.

        Attributes:
            before (LoadPrice): What one side costs at one load, whether or not the promises hold there.

                `level` is the load: users of a closed loop, requests per second, or the speed of a recording. `value` is the
                first
                promise's metric at its percentile; None where no request gave it.
            same (LoadPrice | None):
            no_slower (LoadPrice | None):
    """

    before: LoadPrice
    same: LoadPrice | None
    no_slower: LoadPrice | None

    def to_dict(self) -> dict[str, Any]:
        from ..models.load_price import LoadPrice  # noqa: PLC0415

        before = self.before.to_dict()

        same: dict[str, Any] | None
        if isinstance(self.same, LoadPrice):
            same = self.same.to_dict()
        else:
            same = self.same

        no_slower: dict[str, Any] | None
        if isinstance(self.no_slower, LoadPrice):
            no_slower = self.no_slower.to_dict()
        else:
            no_slower = self.no_slower

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "before": before,
                "same": same,
                "no_slower": no_slower,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.load_price import LoadPrice  # noqa: PLC0415

        d = dict(src_dict)
        before = LoadPrice.from_dict(d.pop("before"))

        def _parse_same(data: object) -> LoadPrice | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                same_type_0 = LoadPrice.from_dict(data)

                return same_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadPrice | None, data)

        same = _parse_same(d.pop("same"))

        def _parse_no_slower(data: object) -> LoadPrice | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                no_slower_type_0 = LoadPrice.from_dict(data)

                return no_slower_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadPrice | None, data)

        no_slower = _parse_no_slower(d.pop("no_slower"))

        any_load_row = cls(
            before=before,
            same=same,
            no_slower=no_slower,
        )

        return any_load_row
