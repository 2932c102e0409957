from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.drift_side import DriftSide, check_drift_side

T = TypeVar("T", bound="Drift")


@_attrs_define
class Drift:
    """A side whose requests became slower or faster while one process measured: second half over first half.

    Attributes:
        process (int): counted from 1
        side (DriftSide):
        ratio (float):
    """

    process: int
    side: DriftSide
    ratio: float

    def to_dict(self) -> dict[str, Any]:
        process = self.process

        side: str = self.side

        ratio = self.ratio

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "process": process,
                "side": side,
                "ratio": ratio,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        process = d.pop("process")

        side = check_drift_side(d.pop("side"))

        ratio = d.pop("ratio")

        drift = cls(
            process=process,
            side=side,
            ratio=ratio,
        )

        return drift
