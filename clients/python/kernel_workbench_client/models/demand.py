from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Demand")


@_attrs_define
class Demand:
    """What a fleet is asked for, as stated: users at once or requests per second, and the terms it is paid by.

    `spare`: share of each GPU's capacity that is left free. `hours_per_day`: hours a day that the GPUs are paid for.
    `duty_cycle`: share of those hours in which the demand is there. `cycle_s`: seconds from a user's request to the
    next; None where users always wait for an answer.

        Attributes:
            users (int | None | Unset):
            cycle_s (float | None | Unset):
            requests_per_second (float | None | Unset):
            spare (float | Unset):  Default: 0.3.
            hours_per_day (float | Unset):  Default: 24.0.
            duty_cycle (float | Unset):  Default: 1.0.
            fee (float | None | Unset): USD, paid once
    """

    users: int | None | Unset = UNSET
    cycle_s: float | None | Unset = UNSET
    requests_per_second: float | None | Unset = UNSET
    spare: float | Unset = 0.3
    hours_per_day: float | Unset = 24.0
    duty_cycle: float | Unset = 1.0
    fee: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        users: int | None | Unset
        if isinstance(self.users, Unset):
            users = UNSET
        else:
            users = self.users

        cycle_s: float | None | Unset
        if isinstance(self.cycle_s, Unset):
            cycle_s = UNSET
        else:
            cycle_s = self.cycle_s

        requests_per_second: float | None | Unset
        if isinstance(self.requests_per_second, Unset):
            requests_per_second = UNSET
        else:
            requests_per_second = self.requests_per_second

        spare = self.spare

        hours_per_day = self.hours_per_day

        duty_cycle = self.duty_cycle

        fee: float | None | Unset
        if isinstance(self.fee, Unset):
            fee = UNSET
        else:
            fee = self.fee

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if users is not UNSET:
            field_dict["users"] = users
        if cycle_s is not UNSET:
            field_dict["cycle_s"] = cycle_s
        if requests_per_second is not UNSET:
            field_dict["requests_per_second"] = requests_per_second
        if spare is not UNSET:
            field_dict["spare"] = spare
        if hours_per_day is not UNSET:
            field_dict["hours_per_day"] = hours_per_day
        if duty_cycle is not UNSET:
            field_dict["duty_cycle"] = duty_cycle
        if fee is not UNSET:
            field_dict["fee"] = fee

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

        def _parse_cycle_s(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        cycle_s = _parse_cycle_s(d.pop("cycle_s", UNSET))

        def _parse_requests_per_second(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        requests_per_second = _parse_requests_per_second(d.pop("requests_per_second", UNSET))

        spare = d.pop("spare", UNSET)

        hours_per_day = d.pop("hours_per_day", UNSET)

        duty_cycle = d.pop("duty_cycle", UNSET)

        def _parse_fee(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        fee = _parse_fee(d.pop("fee", UNSET))

        demand = cls(
            users=users,
            cycle_s=cycle_s,
            requests_per_second=requests_per_second,
            spare=spare,
            hours_per_day=hours_per_day,
            duty_cycle=duty_cycle,
            fee=fee,
        )

        return demand
