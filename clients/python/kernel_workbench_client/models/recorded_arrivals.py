from __future__ import annotations

from collections.abc import Mapping
from typing import (
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="RecordedArrivals")


@_attrs_define
class RecordedArrivals:
    """Requests arrive as in the recording, `traffic.recording`, `speed` times as fast; its first line at once.

    Attributes:
        kind (Literal['recorded'] | Unset):  Default: 'recorded'.
        speed (float | Unset): times as fast as recorded; where a run searches the highest load, the most that it tries
            Default: 1.0.
    """

    kind: Literal["recorded"] | Unset = "recorded"
    speed: float | Unset = 1.0

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        speed = self.speed

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if kind is not UNSET:
            field_dict["kind"] = kind
        if speed is not UNSET:
            field_dict["speed"] = speed

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = cast(Literal["recorded"] | Unset, d.pop("kind", UNSET))
        if kind != "recorded" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'recorded', got '{kind}'")

        speed = d.pop("speed", UNSET)

        recorded_arrivals = cls(
            kind=kind,
            speed=speed,
        )

        return recorded_arrivals
