from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="Saturation")


@_attrs_define
class Saturation:
    """The load from which more hardly brings more tokens, by the slope of throughput over the load.

    `slopes` has one value for each pair of neighbouring loads: by what share of the tokens per second and user of the
    first load each further user added to the whole. `users` is the first load from which the slope to every higher one
    is below `least`.
    In an open loop requests per second stand in the place of users, of recorded arrivals the speed.

        Attributes:
            users (float):
            least (float):
            slopes (list[float]):
    """

    users: float
    least: float
    slopes: list[float]

    def to_dict(self) -> dict[str, Any]:
        users = self.users

        least = self.least

        slopes = self.slopes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "users": users,
                "least": least,
                "slopes": slopes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        users = d.pop("users")

        least = d.pop("least")

        slopes = cast(list[float], d.pop("slopes"))

        saturation = cls(
            users=users,
            least=least,
            slopes=slopes,
        )

        return saturation
