from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="Sensitivity")


@_attrs_define
class Sensitivity:
    """$/M tokens before and after at one GPU price.

    Attributes:
        usd_per_hour (float):
        before (float | None):
        after (float | None):
    """

    usd_per_hour: float
    before: float | None
    after: float | None

    def to_dict(self) -> dict[str, Any]:
        usd_per_hour = self.usd_per_hour

        before: float | None
        before = self.before

        after: float | None
        after = self.after

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "usd_per_hour": usd_per_hour,
                "before": before,
                "after": after,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        usd_per_hour = d.pop("usd_per_hour")

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

        sensitivity = cls(
            usd_per_hour=usd_per_hour,
            before=before,
            after=after,
        )

        return sensitivity
