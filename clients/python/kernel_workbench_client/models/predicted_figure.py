from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="PredictedFigure")


@_attrs_define
class PredictedFigure:
    """A median in ms; with `users`, the output tokens per second that so many users at once are given.

    Attributes:
        metric (str):
        value (float):
        n (int | None | Unset):
        users (int | None | Unset):
        unit (str | Unset):  Default: 'ms'.
    """

    metric: str
    value: float
    n: int | None | Unset = UNSET
    users: int | None | Unset = UNSET
    unit: str | Unset = "ms"

    def to_dict(self) -> dict[str, Any]:
        metric = self.metric

        value = self.value

        n: int | None | Unset
        if isinstance(self.n, Unset):
            n = UNSET
        else:
            n = self.n

        users: int | None | Unset
        if isinstance(self.users, Unset):
            users = UNSET
        else:
            users = self.users

        unit = self.unit

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "metric": metric,
                "value": value,
            }
        )
        if n is not UNSET:
            field_dict["n"] = n
        if users is not UNSET:
            field_dict["users"] = users
        if unit is not UNSET:
            field_dict["unit"] = unit

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        metric = d.pop("metric")

        value = d.pop("value")

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        def _parse_users(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        users = _parse_users(d.pop("users", UNSET))

        unit = d.pop("unit", UNSET)

        predicted_figure = cls(
            metric=metric,
            value=value,
            n=n,
            users=users,
            unit=unit,
        )

        return predicted_figure
