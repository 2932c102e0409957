from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="LoadSearch")


@_attrs_define
class LoadSearch:
    """Asks a run to put before and after under load, and to find the highest at which every objective holds.

    That is the most users of a closed loop, and the highest rate of an open one, up to `traffic.arrivals.rate`.

        Attributes:
            most_users (int | Unset): users of a closed loop at most, doubled from one; of an open loop the requests served
                at once Default: 64.
    """

    most_users: int | Unset = 64

    def to_dict(self) -> dict[str, Any]:
        most_users = self.most_users

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if most_users is not UNSET:
            field_dict["most_users"] = most_users

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        most_users = d.pop("most_users", UNSET)

        load_search = cls(
            most_users=most_users,
        )

        return load_search
