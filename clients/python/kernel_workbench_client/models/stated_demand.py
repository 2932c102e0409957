from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="StatedDemand")


@_attrs_define
class StatedDemand:
    """What the deployment must carry, as the customer states it: GPUs and a month's bill are said for it.

    Attributes:
        users (int | None | Unset): users at once who always wait for an answer
        requests_per_second (float | None | Unset):
    """

    users: int | None | Unset = UNSET
    requests_per_second: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        users: int | None | Unset
        if isinstance(self.users, Unset):
            users = UNSET
        else:
            users = self.users

        requests_per_second: float | None | Unset
        if isinstance(self.requests_per_second, Unset):
            requests_per_second = UNSET
        else:
            requests_per_second = self.requests_per_second

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if users is not UNSET:
            field_dict["users"] = users
        if requests_per_second is not UNSET:
            field_dict["requests_per_second"] = requests_per_second

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_users(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        users = _parse_users(d.pop("users", UNSET))

        def _parse_requests_per_second(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        requests_per_second = _parse_requests_per_second(d.pop("requests_per_second", UNSET))

        stated_demand = cls(
            users=users,
            requests_per_second=requests_per_second,
        )

        return stated_demand
