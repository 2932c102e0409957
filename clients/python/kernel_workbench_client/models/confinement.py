from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Confinement")


@_attrs_define
class Confinement:
    """What held the process that measured, in a few words each, and in sentences what did not.

    Attributes:
        held (list[str] | Unset):
        missing (list[str] | Unset):
    """

    held: list[str] | Unset = UNSET
    missing: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        held: list[str] | Unset = UNSET
        if not isinstance(self.held, Unset):
            held = self.held

        missing: list[str] | Unset = UNSET
        if not isinstance(self.missing, Unset):
            missing = self.missing

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if held is not UNSET:
            field_dict["held"] = held
        if missing is not UNSET:
            field_dict["missing"] = missing

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        held = cast(list[str], d.pop("held", UNSET))

        missing = cast(list[str], d.pop("missing", UNSET))

        confinement = cls(
            held=held,
            missing=missing,
        )

        return confinement
