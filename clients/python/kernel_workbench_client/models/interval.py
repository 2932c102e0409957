from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Interval")


@_attrs_define
class Interval:
    """A central value with its 95 % interval.

    Attributes:
        value (float):
        low (float):
        high (float):
    """

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        value = self.value

        low = self.low

        high = self.high

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "value": value,
                "low": low,
                "high": high,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        value = d.pop("value")

        low = d.pop("low")

        high = d.pop("high")

        interval = cls(
            value=value,
            low=low,
            high=high,
        )

        return interval
