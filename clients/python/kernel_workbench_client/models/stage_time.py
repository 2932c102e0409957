from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="StageTime")


@_attrs_define
class StageTime:
    """When a stage ran, in seconds since the run started.

    Attributes:
        stage (str):
        start_s (float):
        duration_s (float):
    """

    stage: str
    start_s: float
    duration_s: float

    def to_dict(self) -> dict[str, Any]:
        stage = self.stage

        start_s = self.start_s

        duration_s = self.duration_s

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "stage": stage,
                "start_s": start_s,
                "duration_s": duration_s,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        stage = d.pop("stage")

        start_s = d.pop("start_s")

        duration_s = d.pop("duration_s")

        stage_time = cls(
            stage=stage,
            start_s=start_s,
            duration_s=duration_s,
        )

        return stage_time
