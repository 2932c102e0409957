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

T = TypeVar("T", bound="FixedLength")


@_attrs_define
class FixedLength:
    """Every request has the same length, in tokens.

    Attributes:
        tokens (int):
        kind (Literal['fixed'] | Unset):  Default: 'fixed'.
    """

    tokens: int
    kind: Literal["fixed"] | Unset = "fixed"

    def to_dict(self) -> dict[str, Any]:
        tokens = self.tokens

        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "tokens": tokens,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        tokens = d.pop("tokens")

        kind = cast(Literal["fixed"] | Unset, d.pop("kind", UNSET))
        if kind != "fixed" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'fixed', got '{kind}'")

        fixed_length = cls(
            tokens=tokens,
            kind=kind,
        )

        return fixed_length
