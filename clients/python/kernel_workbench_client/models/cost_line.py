from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.cost_line_price_basis import (
    CostLinePriceBasis,
    check_cost_line_price_basis,
)
from ..models.cost_line_speed_basis import (
    CostLineSpeedBasis,
    check_cost_line_speed_basis,
)
from ..types import UNSET, Unset

T = TypeVar("T", bound="CostLine")


@_attrs_define
class CostLine:
    """One deployment's unit cost. `tokens_per_second` is of what is paid for by the hour, one GPU unless `gpu` or a
    note says otherwise, while the SLA holds, or None if it never does. `usd_per_hour` is None where nobody knows it.

        Attributes:
            label (str):
            gpu (str):
            usd_per_hour (float | None):
            price_basis (CostLinePriceBasis):
            tokens_per_second (float | None):
            speed_basis (CostLineSpeedBasis):
            usd_per_mtok (float | None):
            usd_per_mtok_at_duty (float | None):
            holds_sla (bool | None | Unset):
            note (str | Unset):  Default: ''.
    """

    label: str
    gpu: str
    usd_per_hour: float | None
    price_basis: CostLinePriceBasis
    tokens_per_second: float | None
    speed_basis: CostLineSpeedBasis
    usd_per_mtok: float | None
    usd_per_mtok_at_duty: float | None
    holds_sla: bool | None | Unset = UNSET
    note: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        label = self.label

        gpu = self.gpu

        usd_per_hour: float | None
        usd_per_hour = self.usd_per_hour

        price_basis: str = self.price_basis

        tokens_per_second: float | None
        tokens_per_second = self.tokens_per_second

        speed_basis: str = self.speed_basis

        usd_per_mtok: float | None
        usd_per_mtok = self.usd_per_mtok

        usd_per_mtok_at_duty: float | None
        usd_per_mtok_at_duty = self.usd_per_mtok_at_duty

        holds_sla: bool | None | Unset
        if isinstance(self.holds_sla, Unset):
            holds_sla = UNSET
        else:
            holds_sla = self.holds_sla

        note = self.note

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "gpu": gpu,
                "usd_per_hour": usd_per_hour,
                "price_basis": price_basis,
                "tokens_per_second": tokens_per_second,
                "speed_basis": speed_basis,
                "usd_per_mtok": usd_per_mtok,
                "usd_per_mtok_at_duty": usd_per_mtok_at_duty,
            }
        )
        if holds_sla is not UNSET:
            field_dict["holds_sla"] = holds_sla
        if note is not UNSET:
            field_dict["note"] = note

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        label = d.pop("label")

        gpu = d.pop("gpu")

        def _parse_usd_per_hour(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        usd_per_hour = _parse_usd_per_hour(d.pop("usd_per_hour"))

        price_basis = check_cost_line_price_basis(d.pop("price_basis"))

        def _parse_tokens_per_second(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        tokens_per_second = _parse_tokens_per_second(d.pop("tokens_per_second"))

        speed_basis = check_cost_line_speed_basis(d.pop("speed_basis"))

        def _parse_usd_per_mtok(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        usd_per_mtok = _parse_usd_per_mtok(d.pop("usd_per_mtok"))

        def _parse_usd_per_mtok_at_duty(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        usd_per_mtok_at_duty = _parse_usd_per_mtok_at_duty(d.pop("usd_per_mtok_at_duty"))

        def _parse_holds_sla(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        holds_sla = _parse_holds_sla(d.pop("holds_sla", UNSET))

        note = d.pop("note", UNSET)

        cost_line = cls(
            label=label,
            gpu=gpu,
            usd_per_hour=usd_per_hour,
            price_basis=price_basis,
            tokens_per_second=tokens_per_second,
            speed_basis=speed_basis,
            usd_per_mtok=usd_per_mtok,
            usd_per_mtok_at_duty=usd_per_mtok_at_duty,
            holds_sla=holds_sla,
            note=note,
        )

        return cost_line
