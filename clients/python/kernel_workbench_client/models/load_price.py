from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="LoadPrice")


@_attrs_define
class LoadPrice:
    """What one side costs at one load, whether or not the promises hold there.

    `level` is the load: users of a closed loop, requests per second, or the speed of a recording. `value` is the first
    promise's metric at its percentile; None where no request gave it.

        Attributes:
            level (float):
            load (str): the load in words
            value (float | None):
            holds (bool | None):
            per_second (Interval): A central value with its 95 % interval.
            usd_per_mtok (Interval): A central value with its 95 % interval.
    """

    level: float
    load: str
    value: float | None
    holds: bool | None
    per_second: Interval
    usd_per_mtok: Interval

    def to_dict(self) -> dict[str, Any]:
        level = self.level

        load = self.load

        value: float | None
        value = self.value

        holds: bool | None
        holds = self.holds

        per_second = self.per_second.to_dict()

        usd_per_mtok = self.usd_per_mtok.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "level": level,
                "load": load,
                "value": value,
                "holds": holds,
                "per_second": per_second,
                "usd_per_mtok": usd_per_mtok,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        level = d.pop("level")

        load = d.pop("load")

        def _parse_value(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        value = _parse_value(d.pop("value"))

        def _parse_holds(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        holds = _parse_holds(d.pop("holds"))

        per_second = Interval.from_dict(d.pop("per_second"))

        usd_per_mtok = Interval.from_dict(d.pop("usd_per_mtok"))

        load_price = cls(
            level=level,
            load=load,
            value=value,
            holds=holds,
            per_second=per_second,
            usd_per_mtok=usd_per_mtok,
        )

        return load_price
