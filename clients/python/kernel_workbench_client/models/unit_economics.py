from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.unit_economics_counted import (
    UnitEconomicsCounted,
    check_unit_economics_counted,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.price_point import PricePoint
    from ..models.served_load import ServedLoad
    from ..models.stated_fleet import StatedFleet
    from ..models.unit_cost import UnitCost


T = TypeVar("T", bound="UnitEconomics")


@_attrs_define
class UnitEconomics:
    """Unit costs before and after of servers that are busy all the hour, and what moves them.

    A side is None where no load is shown to hold the SLA.

        Attributes:
            duty_cycle (float):
            prompt_tokens (int):
            output_tokens (int):
            generates (bool):
            counted (UnitEconomicsCounted):
            before (None | ServedLoad):
            after (None | ServedLoad):
            costs (list[UnitCost]):
            moves (list[PricePoint] | Unset):
            stated (None | StatedFleet | Unset): of the demand that the workload states, if any
    """

    duty_cycle: float
    prompt_tokens: int
    output_tokens: int
    generates: bool
    counted: UnitEconomicsCounted
    before: None | ServedLoad
    after: None | ServedLoad
    costs: list[UnitCost]
    moves: list[PricePoint] | Unset = UNSET
    stated: None | StatedFleet | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.served_load import ServedLoad  # noqa: PLC0415
        from ..models.stated_fleet import StatedFleet  # noqa: PLC0415

        duty_cycle = self.duty_cycle

        prompt_tokens = self.prompt_tokens

        output_tokens = self.output_tokens

        generates = self.generates

        counted: str = self.counted

        before: dict[str, Any] | None
        if isinstance(self.before, ServedLoad):
            before = self.before.to_dict()
        else:
            before = self.before

        after: dict[str, Any] | None
        if isinstance(self.after, ServedLoad):
            after = self.after.to_dict()
        else:
            after = self.after

        costs = []
        for costs_item_data in self.costs:
            costs_item = costs_item_data.to_dict()
            costs.append(costs_item)

        moves: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.moves, Unset):
            moves = []
            for moves_item_data in self.moves:
                moves_item = moves_item_data.to_dict()
                moves.append(moves_item)

        stated: dict[str, Any] | None | Unset
        if isinstance(self.stated, Unset):
            stated = UNSET
        elif isinstance(self.stated, StatedFleet):
            stated = self.stated.to_dict()
        else:
            stated = self.stated

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "duty_cycle": duty_cycle,
                "prompt_tokens": prompt_tokens,
                "output_tokens": output_tokens,
                "generates": generates,
                "counted": counted,
                "before": before,
                "after": after,
                "costs": costs,
            }
        )
        if moves is not UNSET:
            field_dict["moves"] = moves
        if stated is not UNSET:
            field_dict["stated"] = stated

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.price_point import PricePoint  # noqa: PLC0415
        from ..models.served_load import ServedLoad  # noqa: PLC0415
        from ..models.stated_fleet import StatedFleet  # noqa: PLC0415
        from ..models.unit_cost import UnitCost  # noqa: PLC0415

        d = dict(src_dict)
        duty_cycle = d.pop("duty_cycle")

        prompt_tokens = d.pop("prompt_tokens")

        output_tokens = d.pop("output_tokens")

        generates = d.pop("generates")

        counted = check_unit_economics_counted(d.pop("counted"))

        def _parse_before(data: object) -> None | ServedLoad:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                before_type_0 = ServedLoad.from_dict(data)

                return before_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServedLoad, data)

        before = _parse_before(d.pop("before"))

        def _parse_after(data: object) -> None | ServedLoad:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                after_type_0 = ServedLoad.from_dict(data)

                return after_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServedLoad, data)

        after = _parse_after(d.pop("after"))

        costs = []
        _costs = d.pop("costs")
        for costs_item_data in _costs:
            costs_item = UnitCost.from_dict(costs_item_data)

            costs.append(costs_item)

        _moves = d.pop("moves", UNSET)
        moves: list[PricePoint] | Unset = UNSET
        if _moves is not UNSET:
            moves = []
            for moves_item_data in _moves:
                moves_item = PricePoint.from_dict(moves_item_data)

                moves.append(moves_item)

        def _parse_stated(data: object) -> None | StatedFleet | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                stated_type_0 = StatedFleet.from_dict(data)

                return stated_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StatedFleet | Unset, data)

        stated = _parse_stated(d.pop("stated", UNSET))

        unit_economics = cls(
            duty_cycle=duty_cycle,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            generates=generates,
            counted=counted,
            before=before,
            after=after,
            costs=costs,
            moves=moves,
            stated=stated,
        )

        return unit_economics
