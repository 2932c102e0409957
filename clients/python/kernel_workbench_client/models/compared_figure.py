from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ComparedFigure")


@_attrs_define
class ComparedFigure:
    """A predicted figure beside the measured one.

    Attributes:
        label (str):
        unit (str):
        predicted (float):
        measured (float):
    """

    label: str
    unit: str
    predicted: float
    measured: float

    def to_dict(self) -> dict[str, Any]:
        label = self.label

        unit = self.unit

        predicted = self.predicted

        measured = self.measured

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "unit": unit,
                "predicted": predicted,
                "measured": measured,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        label = d.pop("label")

        unit = d.pop("unit")

        predicted = d.pop("predicted")

        measured = d.pop("measured")

        compared_figure = cls(
            label=label,
            unit=unit,
            predicted=predicted,
            measured=measured,
        )

        return compared_figure
