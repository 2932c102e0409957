from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="LaneSummary")


@_attrs_define
class LaneSummary:
    """One lane of a timeline: a stream of the GPU, or what a host thread did. `busy_ms` counts overlaps once.

    Attributes:
        name (str):
        events (int):
        busy_ms (float):
    """

    name: str
    events: int
    busy_ms: float

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        events = self.events

        busy_ms = self.busy_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "events": events,
                "busy_ms": busy_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        events = d.pop("events")

        busy_ms = d.pop("busy_ms")

        lane_summary = cls(
            name=name,
            events=events,
            busy_ms=busy_ms,
        )

        return lane_summary
