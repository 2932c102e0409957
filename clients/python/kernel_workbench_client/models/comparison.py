from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.comparison_ratios import ComparisonRatios


T = TypeVar("T", bound="Comparison")


@_attrs_define
class Comparison:
    """A run held against a kept one. `regressed`: it is worse in a metric of an objective by more than was asked.

    Attributes:
        run (UUID):
        kept (UUID):
        ratios (ComparisonRatios): by metric, the run over the kept one: above 1 it is worse; the intervals hold
            together with 99 %
        regressed (bool):
        sentence (str):
    """

    run: UUID
    kept: UUID
    ratios: ComparisonRatios
    regressed: bool
    sentence: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        run = str(self.run)

        kept = str(self.kept)

        ratios = self.ratios.to_dict()

        regressed = self.regressed

        sentence = self.sentence

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "run": run,
                "kept": kept,
                "ratios": ratios,
                "regressed": regressed,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.comparison_ratios import ComparisonRatios  # noqa: PLC0415

        d = dict(src_dict)
        run = UUID(d.pop("run"))

        kept = UUID(d.pop("kept"))

        ratios = ComparisonRatios.from_dict(d.pop("ratios"))

        regressed = d.pop("regressed")

        sentence = d.pop("sentence")

        comparison = cls(
            run=run,
            kept=kept,
            ratios=ratios,
            regressed=regressed,
            sentence=sentence,
        )

        comparison.additional_properties = d
        return comparison

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
