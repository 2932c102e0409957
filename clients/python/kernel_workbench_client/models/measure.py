from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Measure")


@_attrs_define
class Measure:
    """One measure of the distance to the float32 model. Largest errors are shares of the largest value.

    Attributes:
        name (str):
        before (float):
        after (float):
    """

    name: str
    before: float
    after: float

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        before = self.before

        after = self.after

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "before": before,
                "after": after,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        before = d.pop("before")

        after = d.pop("after")

        measure = cls(
            name=name,
            before=before,
            after=after,
        )

        return measure
