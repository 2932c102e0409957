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

T = TypeVar("T", bound="UniformLength")


@_attrs_define
class UniformLength:
    """Each length from `low` to `high` is equally likely, in tokens.

    Attributes:
        low (int):
        high (int):
        kind (Literal['uniform'] | Unset):  Default: 'uniform'.
    """

    low: int
    high: int
    kind: Literal["uniform"] | Unset = "uniform"

    def to_dict(self) -> dict[str, Any]:
        low = self.low

        high = self.high

        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "low": low,
                "high": high,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        low = d.pop("low")

        high = d.pop("high")

        kind = cast(Literal["uniform"] | Unset, d.pop("kind", UNSET))
        if kind != "uniform" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'uniform', got '{kind}'")

        uniform_length = cls(
            low=low,
            high=high,
            kind=kind,
        )

        return uniform_length
