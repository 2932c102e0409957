from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.quality import Quality
    from ..models.speedup import Speedup


T = TypeVar("T", bound="PlanCheck")


@_attrs_define
class PlanCheck:
    """A plan that verify measured beside what runs today, and why it is no change to recommend ("" when it is one).

    Attributes:
        label (str):
        confirmed (bool):
        reason (str | Unset):  Default: ''.
        speedup (None | Speedup | Unset): null where the plan is what runs today
        quality (None | Quality | Unset):
    """

    label: str
    confirmed: bool
    reason: str | Unset = ""
    speedup: None | Speedup | Unset = UNSET
    quality: None | Quality | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.quality import Quality  # noqa: PLC0415
        from ..models.speedup import Speedup  # noqa: PLC0415

        label = self.label

        confirmed = self.confirmed

        reason = self.reason

        speedup: dict[str, Any] | None | Unset
        if isinstance(self.speedup, Unset):
            speedup = UNSET
        elif isinstance(self.speedup, Speedup):
            speedup = self.speedup.to_dict()
        else:
            speedup = self.speedup

        quality: dict[str, Any] | None | Unset
        if isinstance(self.quality, Unset):
            quality = UNSET
        elif isinstance(self.quality, Quality):
            quality = self.quality.to_dict()
        else:
            quality = self.quality

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "confirmed": confirmed,
            }
        )
        if reason is not UNSET:
            field_dict["reason"] = reason
        if speedup is not UNSET:
            field_dict["speedup"] = speedup
        if quality is not UNSET:
            field_dict["quality"] = quality

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.quality import Quality  # noqa: PLC0415
        from ..models.speedup import Speedup  # noqa: PLC0415

        d = dict(src_dict)
        label = d.pop("label")

        confirmed = d.pop("confirmed")

        reason = d.pop("reason", UNSET)

        def _parse_speedup(data: object) -> None | Speedup | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                speedup_type_0 = Speedup.from_dict(data)

                return speedup_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Speedup | Unset, data)

        speedup = _parse_speedup(d.pop("speedup", UNSET))

        def _parse_quality(data: object) -> None | Quality | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                quality_type_0 = Quality.from_dict(data)

                return quality_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Quality | Unset, data)

        quality = _parse_quality(d.pop("quality", UNSET))

        plan_check = cls(
            label=label,
            confirmed=confirmed,
            reason=reason,
            speedup=speedup,
            quality=quality,
        )

        return plan_check
