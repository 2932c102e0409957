from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.any_load_row import AnyLoadRow
    from ..models.load_price import LoadPrice


T = TypeVar("T", bound="AnyLoad")


@_attrs_define
class AnyLoad:
    """Prices at each load of before, whatever the promise; slower is meant by the first promise, `promise`.

    `most_before` and `most_after` are the loads that gave the most tokens per second.

        Attributes:
            promise (str):
            unit (str):
            rows (list[AnyLoadRow]):
            most_before (LoadPrice): What one side costs at one load, whether or not the promises hold there.

                `level` is the load: users of a closed loop, requests per second, or the speed of a recording. `value` is the
                first
                promise's metric at its percentile; None where no request gave it.
            most_after (LoadPrice): What one side costs at one load, whether or not the promises hold there.

                `level` is the load: users of a closed loop, requests per second, or the speed of a recording. `value` is the
                first
                promise's metric at its percentile; None where no request gave it.
            sentence (str):
    """

    promise: str
    unit: str
    rows: list[AnyLoadRow]
    most_before: LoadPrice
    most_after: LoadPrice
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        promise = self.promise

        unit = self.unit

        rows = []
        for rows_item_data in self.rows:
            rows_item = rows_item_data.to_dict()
            rows.append(rows_item)

        most_before = self.most_before.to_dict()

        most_after = self.most_after.to_dict()

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "promise": promise,
                "unit": unit,
                "rows": rows,
                "most_before": most_before,
                "most_after": most_after,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.any_load_row import AnyLoadRow  # noqa: PLC0415
        from ..models.load_price import LoadPrice  # noqa: PLC0415

        d = dict(src_dict)
        promise = d.pop("promise")

        unit = d.pop("unit")

        rows = []
        _rows = d.pop("rows")
        for rows_item_data in _rows:
            rows_item = AnyLoadRow.from_dict(rows_item_data)

            rows.append(rows_item)

        most_before = LoadPrice.from_dict(d.pop("most_before"))

        most_after = LoadPrice.from_dict(d.pop("most_after"))

        sentence = d.pop("sentence")

        any_load = cls(
            promise=promise,
            unit=unit,
            rows=rows,
            most_before=most_before,
            most_after=most_after,
            sentence=sentence,
        )

        return any_load
