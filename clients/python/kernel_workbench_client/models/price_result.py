from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.price_result_counted import PriceResultCounted, check_price_result_counted
from ..models.price_result_present_speed import (
    PriceResultPresentSpeed,
    check_price_result_present_speed,
)
from ..models.price_result_ratio_basis import (
    PriceResultRatioBasis,
    check_price_result_ratio_basis,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.any_load import AnyLoad
    from ..models.cost_line import CostLine
    from ..models.price_book import PriceBook
    from ..models.sensitivity import Sensitivity
    from ..models.unit_economics import UnitEconomics


T = TypeVar("T", bound="PriceResult")


@_attrs_define
class PriceResult:
    """What the price stage found.

    Attributes:
        book (PriceBook): Prices as they were on `date` (ISO 8601), and where they come from.
        lines (list[CostLine]):
        before_after_ratio (float | None): of the rates, after over before: tokens per dollar at one price; null at one
            request at a time
        duty_cycle (float):
        sensitivity (list[Sensitivity]):
        sentence (str):
        ratio_basis (PriceResultRatioBasis | Unset):  Default: 'measured'.
        present_ratio (float | None | Unset):
        present_speed_ratio (float | None | Unset): of present_ratio the part of the speed
        present_speed (PriceResultPresentSpeed | Unset): what present_speed_ratio compares Default: 'latency'.
        present_price_ratio (float | None | Unset): of present_ratio the part of the prices of a GPU-hour
        at_once (int | None | Unset): requests served together when the rates were measured
        highest (bool | Unset): whether at_once is the highest load after that holds Default: False.
        highest_load (str | Unset): that load in words, such as `the highest load that holds, 12.5 requests per second`
            Default: ''.
        counted (PriceResultCounted | Unset): what the rates and the prices of a million count Default: 'tokens'.
        economics (None | UnitEconomics | Unset): unit costs, null in documents before them
        any_load (AnyLoad | None | Unset): prices at each load, where both sides were put under it
    """

    book: PriceBook
    lines: list[CostLine]
    before_after_ratio: float | None
    duty_cycle: float
    sensitivity: list[Sensitivity]
    sentence: str
    ratio_basis: PriceResultRatioBasis | Unset = "measured"
    present_ratio: float | None | Unset = UNSET
    present_speed_ratio: float | None | Unset = UNSET
    present_speed: PriceResultPresentSpeed | Unset = "latency"
    present_price_ratio: float | None | Unset = UNSET
    at_once: int | None | Unset = UNSET
    highest: bool | Unset = False
    highest_load: str | Unset = ""
    counted: PriceResultCounted | Unset = "tokens"
    economics: None | UnitEconomics | Unset = UNSET
    any_load: AnyLoad | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.any_load import AnyLoad  # noqa: PLC0415
        from ..models.unit_economics import UnitEconomics  # noqa: PLC0415

        book = self.book.to_dict()

        lines = []
        for lines_item_data in self.lines:
            lines_item = lines_item_data.to_dict()
            lines.append(lines_item)

        before_after_ratio: float | None
        before_after_ratio = self.before_after_ratio

        duty_cycle = self.duty_cycle

        sensitivity = []
        for sensitivity_item_data in self.sensitivity:
            sensitivity_item = sensitivity_item_data.to_dict()
            sensitivity.append(sensitivity_item)

        sentence = self.sentence

        ratio_basis: str | Unset = UNSET
        if not isinstance(self.ratio_basis, Unset):
            ratio_basis = self.ratio_basis

        present_ratio: float | None | Unset
        if isinstance(self.present_ratio, Unset):
            present_ratio = UNSET
        else:
            present_ratio = self.present_ratio

        present_speed_ratio: float | None | Unset
        if isinstance(self.present_speed_ratio, Unset):
            present_speed_ratio = UNSET
        else:
            present_speed_ratio = self.present_speed_ratio

        present_speed: str | Unset = UNSET
        if not isinstance(self.present_speed, Unset):
            present_speed = self.present_speed

        present_price_ratio: float | None | Unset
        if isinstance(self.present_price_ratio, Unset):
            present_price_ratio = UNSET
        else:
            present_price_ratio = self.present_price_ratio

        at_once: int | None | Unset
        if isinstance(self.at_once, Unset):
            at_once = UNSET
        else:
            at_once = self.at_once

        highest = self.highest

        highest_load = self.highest_load

        counted: str | Unset = UNSET
        if not isinstance(self.counted, Unset):
            counted = self.counted

        economics: dict[str, Any] | None | Unset
        if isinstance(self.economics, Unset):
            economics = UNSET
        elif isinstance(self.economics, UnitEconomics):
            economics = self.economics.to_dict()
        else:
            economics = self.economics

        any_load: dict[str, Any] | None | Unset
        if isinstance(self.any_load, Unset):
            any_load = UNSET
        elif isinstance(self.any_load, AnyLoad):
            any_load = self.any_load.to_dict()
        else:
            any_load = self.any_load

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "book": book,
                "lines": lines,
                "before_after_ratio": before_after_ratio,
                "duty_cycle": duty_cycle,
                "sensitivity": sensitivity,
                "sentence": sentence,
            }
        )
        if ratio_basis is not UNSET:
            field_dict["ratio_basis"] = ratio_basis
        if present_ratio is not UNSET:
            field_dict["present_ratio"] = present_ratio
        if present_speed_ratio is not UNSET:
            field_dict["present_speed_ratio"] = present_speed_ratio
        if present_speed is not UNSET:
            field_dict["present_speed"] = present_speed
        if present_price_ratio is not UNSET:
            field_dict["present_price_ratio"] = present_price_ratio
        if at_once is not UNSET:
            field_dict["at_once"] = at_once
        if highest is not UNSET:
            field_dict["highest"] = highest
        if highest_load is not UNSET:
            field_dict["highest_load"] = highest_load
        if counted is not UNSET:
            field_dict["counted"] = counted
        if economics is not UNSET:
            field_dict["economics"] = economics
        if any_load is not UNSET:
            field_dict["any_load"] = any_load

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.any_load import AnyLoad  # noqa: PLC0415
        from ..models.cost_line import CostLine  # noqa: PLC0415
        from ..models.price_book import PriceBook  # noqa: PLC0415
        from ..models.sensitivity import Sensitivity  # noqa: PLC0415
        from ..models.unit_economics import UnitEconomics  # noqa: PLC0415

        d = dict(src_dict)
        book = PriceBook.from_dict(d.pop("book"))

        lines = []
        _lines = d.pop("lines")
        for lines_item_data in _lines:
            lines_item = CostLine.from_dict(lines_item_data)

            lines.append(lines_item)

        def _parse_before_after_ratio(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        before_after_ratio = _parse_before_after_ratio(d.pop("before_after_ratio"))

        duty_cycle = d.pop("duty_cycle")

        sensitivity = []
        _sensitivity = d.pop("sensitivity")
        for sensitivity_item_data in _sensitivity:
            sensitivity_item = Sensitivity.from_dict(sensitivity_item_data)

            sensitivity.append(sensitivity_item)

        sentence = d.pop("sentence")

        _ratio_basis = d.pop("ratio_basis", UNSET)
        ratio_basis: PriceResultRatioBasis | Unset
        if isinstance(_ratio_basis, Unset):
            ratio_basis = UNSET
        else:
            ratio_basis = check_price_result_ratio_basis(_ratio_basis)

        def _parse_present_ratio(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        present_ratio = _parse_present_ratio(d.pop("present_ratio", UNSET))

        def _parse_present_speed_ratio(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        present_speed_ratio = _parse_present_speed_ratio(d.pop("present_speed_ratio", UNSET))

        _present_speed = d.pop("present_speed", UNSET)
        present_speed: PriceResultPresentSpeed | Unset
        if isinstance(_present_speed, Unset):
            present_speed = UNSET
        else:
            present_speed = check_price_result_present_speed(_present_speed)

        def _parse_present_price_ratio(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        present_price_ratio = _parse_present_price_ratio(d.pop("present_price_ratio", UNSET))

        def _parse_at_once(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        at_once = _parse_at_once(d.pop("at_once", UNSET))

        highest = d.pop("highest", UNSET)

        highest_load = d.pop("highest_load", UNSET)

        _counted = d.pop("counted", UNSET)
        counted: PriceResultCounted | Unset
        if isinstance(_counted, Unset):
            counted = UNSET
        else:
            counted = check_price_result_counted(_counted)

        def _parse_economics(data: object) -> None | UnitEconomics | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                economics_type_0 = UnitEconomics.from_dict(data)

                return economics_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | UnitEconomics | Unset, data)

        economics = _parse_economics(d.pop("economics", UNSET))

        def _parse_any_load(data: object) -> AnyLoad | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                any_load_type_0 = AnyLoad.from_dict(data)

                return any_load_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(AnyLoad | None | Unset, data)

        any_load = _parse_any_load(d.pop("any_load", UNSET))

        price_result = cls(
            book=book,
            lines=lines,
            before_after_ratio=before_after_ratio,
            duty_cycle=duty_cycle,
            sensitivity=sensitivity,
            sentence=sentence,
            ratio_basis=ratio_basis,
            present_ratio=present_ratio,
            present_speed_ratio=present_speed_ratio,
            present_speed=present_speed,
            present_price_ratio=present_price_ratio,
            at_once=at_once,
            highest=highest,
            highest_load=highest_load,
            counted=counted,
            economics=economics,
            any_load=any_load,
        )

        return price_result
