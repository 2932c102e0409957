from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ComparedFigure")


@_attrs_define
class ComparedFigure:
    """A predicted figure of a runner's plan beside the measured one.

    Without a `runner` it is of the roofline alone, from before runners had predictions of their own.

        Attributes:
            label (str):
            unit (str):
            predicted (float):
            measured (float):
            runner (str | Unset):  Default: ''.
    """

    label: str
    unit: str
    predicted: float
    measured: float
    runner: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        label = self.label

        unit = self.unit

        predicted = self.predicted

        measured = self.measured

        runner = self.runner

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "unit": unit,
                "predicted": predicted,
                "measured": measured,
            }
        )
        if runner is not UNSET:
            field_dict["runner"] = runner

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        label = d.pop("label")

        unit = d.pop("unit")

        predicted = d.pop("predicted")

        measured = d.pop("measured")

        runner = d.pop("runner", UNSET)

        compared_figure = cls(
            label=label,
            unit=unit,
            predicted=predicted,
            measured=measured,
            runner=runner,
        )

        return compared_figure
