from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="NewPrice")


@_attrs_define
class NewPrice:
    """USD per GPU-hour of a class: low, typical and high do not fall.

    Attributes:
        gpu_class (str):
        name (str):
        low (float):
        typical (float):
        high (float):
    """

    gpu_class: str
    name: str
    low: float
    typical: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        gpu_class = self.gpu_class

        name = self.name

        low = self.low

        typical = self.typical

        high = self.high

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "gpu_class": gpu_class,
                "name": name,
                "low": low,
                "typical": typical,
                "high": high,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        gpu_class = d.pop("gpu_class")

        name = d.pop("name")

        low = d.pop("low")

        typical = d.pop("typical")

        high = d.pop("high")

        new_price = cls(
            gpu_class=gpu_class,
            name=name,
            low=low,
            typical=typical,
            high=high,
        )

        return new_price
