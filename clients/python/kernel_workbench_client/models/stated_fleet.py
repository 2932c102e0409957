from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.demand import Demand
    from ..models.fleet import Fleet


T = TypeVar("T", bound="StatedFleet")


@_attrs_define
class StatedFleet:
    """What the demand of the workload itself takes on each side; None where no load is shown to hold every promise.

    Attributes:
        demand (Demand): What a fleet is asked for, as stated: users at once or requests per second, and the terms it is
            paid by.

            `spare`: share of each GPU's capacity that is left free. `hours_per_day`: hours a day that the GPUs are paid
            for.
            `duty_cycle`: share of those hours in which the demand is there. `cycle_s`: seconds from a user's request to the
            next; None where users always wait for an answer.
        before (Fleet | None):
        after (Fleet | None):
        sentence (str):
    """

    demand: Demand
    before: Fleet | None
    after: Fleet | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        from ..models.fleet import Fleet  # noqa: PLC0415

        demand = self.demand.to_dict()

        before: dict[str, Any] | None
        if isinstance(self.before, Fleet):
            before = self.before.to_dict()
        else:
            before = self.before

        after: dict[str, Any] | None
        if isinstance(self.after, Fleet):
            after = self.after.to_dict()
        else:
            after = self.after

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "demand": demand,
                "before": before,
                "after": after,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.demand import Demand  # noqa: PLC0415
        from ..models.fleet import Fleet  # noqa: PLC0415

        d = dict(src_dict)
        demand = Demand.from_dict(d.pop("demand"))

        def _parse_before(data: object) -> Fleet | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                before_type_0 = Fleet.from_dict(data)

                return before_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Fleet | None, data)

        before = _parse_before(d.pop("before"))

        def _parse_after(data: object) -> Fleet | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                after_type_0 = Fleet.from_dict(data)

                return after_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Fleet | None, data)

        after = _parse_after(d.pop("after"))

        sentence = d.pop("sentence")

        stated_fleet = cls(
            demand=demand,
            before=before,
            after=after,
            sentence=sentence,
        )

        return stated_fleet
