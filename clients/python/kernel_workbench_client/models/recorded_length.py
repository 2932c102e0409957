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

T = TypeVar("T", bound="RecordedLength")


@_attrs_define
class RecordedLength:
    """Each request has the length of its line in the recording, `traffic.recording`.

    Attributes:
        kind (Literal['recorded'] | Unset):  Default: 'recorded'.
    """

    kind: Literal["recorded"] | Unset = "recorded"

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = cast(Literal["recorded"] | Unset, d.pop("kind", UNSET))
        if kind != "recorded" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'recorded', got '{kind}'")

        recorded_length = cls(
            kind=kind,
        )

        return recorded_length
