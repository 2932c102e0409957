from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Energy")


@_attrs_define
class Energy:
    """What one side alone drew: `joules` for each of what the model gives, such as a token, at a mean of `watts`.

    `joules` is None where `reason` says, in a sentence, why the readings of power do not count.

        Attributes:
            joules (float | None):
            watts (float | None | Unset):
            reason (str | Unset):  Default: ''.
    """

    joules: float | None
    watts: float | None | Unset = UNSET
    reason: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        joules: float | None
        joules = self.joules

        watts: float | None | Unset
        if isinstance(self.watts, Unset):
            watts = UNSET
        else:
            watts = self.watts

        reason = self.reason

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "joules": joules,
            }
        )
        if watts is not UNSET:
            field_dict["watts"] = watts
        if reason is not UNSET:
            field_dict["reason"] = reason

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_joules(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        joules = _parse_joules(d.pop("joules"))

        def _parse_watts(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        watts = _parse_watts(d.pop("watts", UNSET))

        reason = d.pop("reason", UNSET)

        energy = cls(
            joules=joules,
            watts=watts,
            reason=reason,
        )

        return energy
