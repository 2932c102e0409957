from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Cancellations")


@_attrs_define
class Cancellations:
    """Users who go away: a share of the requests is closed after so many of its tokens.

    Attributes:
        share (float):
        after_tokens (int | Unset):  Default: 16.
    """

    share: float
    after_tokens: int | Unset = 16

    def to_dict(self) -> dict[str, Any]:
        share = self.share

        after_tokens = self.after_tokens

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "share": share,
            }
        )
        if after_tokens is not UNSET:
            field_dict["after_tokens"] = after_tokens

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        share = d.pop("share")

        after_tokens = d.pop("after_tokens", UNSET)

        cancellations = cls(
            share=share,
            after_tokens=after_tokens,
        )

        return cancellations
