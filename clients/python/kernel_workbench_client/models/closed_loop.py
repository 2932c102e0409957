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

T = TypeVar("T", bound="ClosedLoop")


@_attrs_define
class ClosedLoop:
    """`traffic.concurrency` users; each sends its next request `think_s` after its last one was answered.

    Attributes:
        kind (Literal['closed'] | Unset):  Default: 'closed'.
        think_s (float | Unset): mean pause of a user, exponentially distributed Default: 0.0.
    """

    kind: Literal["closed"] | Unset = "closed"
    think_s: float | Unset = 0.0

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        think_s = self.think_s

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if kind is not UNSET:
            field_dict["kind"] = kind
        if think_s is not UNSET:
            field_dict["think_s"] = think_s

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = cast(Literal["closed"] | Unset, d.pop("kind", UNSET))
        if kind != "closed" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'closed', got '{kind}'")

        think_s = d.pop("think_s", UNSET)

        closed_loop = cls(
            kind=kind,
            think_s=think_s,
        )

        return closed_loop
