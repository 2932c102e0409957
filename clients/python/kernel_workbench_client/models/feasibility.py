from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Feasibility")


@_attrs_define
class Feasibility:
    """Whether a GPU class can hold the model, in GiB; `reason` is a sentence when it cannot.

    Attributes:
        gpu_class (str):
        needs_gib (float):
        has_gib (float | None):
        feasible (bool):
        reason (str | Unset):  Default: ''.
    """

    gpu_class: str
    needs_gib: float
    has_gib: float | None
    feasible: bool
    reason: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        gpu_class = self.gpu_class

        needs_gib = self.needs_gib

        has_gib: float | None
        has_gib = self.has_gib

        feasible = self.feasible

        reason = self.reason

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "gpu_class": gpu_class,
                "needs_gib": needs_gib,
                "has_gib": has_gib,
                "feasible": feasible,
            }
        )
        if reason is not UNSET:
            field_dict["reason"] = reason

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        gpu_class = d.pop("gpu_class")

        needs_gib = d.pop("needs_gib")

        def _parse_has_gib(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        has_gib = _parse_has_gib(d.pop("has_gib"))

        feasible = d.pop("feasible")

        reason = d.pop("reason", UNSET)

        feasibility = cls(
            gpu_class=gpu_class,
            needs_gib=needs_gib,
            has_gib=has_gib,
            feasible=feasible,
            reason=reason,
        )

        return feasibility
