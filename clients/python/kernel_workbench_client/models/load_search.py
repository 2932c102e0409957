from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.stated_demand import StatedDemand


T = TypeVar("T", bound="LoadSearch")


@_attrs_define
class LoadSearch:
    """Asks a run to put before and after under load, and to find the highest at which every objective holds.

    That is the most users of a closed loop, the highest rate of an open one, up to `traffic.arrivals.rate`, and of
    recorded arrivals the highest speed, up to `traffic.arrivals.speed`.

        Attributes:
            most_users (int | Unset): users of a closed loop at most, doubled from one; of an open loop the requests served
                at once Default: 64.
            demand (None | StatedDemand | Unset): what it must carry; the report begins with it
    """

    most_users: int | Unset = 64
    demand: None | StatedDemand | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.stated_demand import StatedDemand  # noqa: PLC0415

        most_users = self.most_users

        demand: dict[str, Any] | None | Unset
        if isinstance(self.demand, Unset):
            demand = UNSET
        elif isinstance(self.demand, StatedDemand):
            demand = self.demand.to_dict()
        else:
            demand = self.demand

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if most_users is not UNSET:
            field_dict["most_users"] = most_users
        if demand is not UNSET:
            field_dict["demand"] = demand

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.stated_demand import StatedDemand  # noqa: PLC0415

        d = dict(src_dict)
        most_users = d.pop("most_users", UNSET)

        def _parse_demand(data: object) -> None | StatedDemand | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                demand_type_0 = StatedDemand.from_dict(data)

                return demand_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StatedDemand | Unset, data)

        demand = _parse_demand(d.pop("demand", UNSET))

        load_search = cls(
            most_users=most_users,
            demand=demand,
        )

        return load_search
