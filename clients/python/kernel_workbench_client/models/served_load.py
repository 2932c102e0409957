from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.served_load_price_basis import (
    ServedLoadPriceBasis,
    check_served_load_price_basis,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.energy import Energy
    from ..models.interval import Interval


T = TypeVar("T", bound="ServedLoad")


@_attrs_define
class ServedLoad:
    """What one server serves at one load, per second, with 95 % intervals, and what an hour of it costs in USD.

    `users`: requests that are open at once. `holds`: whether the SLA does at this load; `highest`: whether a search
    found no higher one. `ttft_ms` and `tpot_ms` are medians; None where the model has none. `usd_per_hour` is that of
    all its `gpus`; None where the hardware is not ours.

        Attributes:
            load (str): the load in words
            users (int):
            holds (bool | None):
            usd_per_hour (float | None):
            per_second (Interval): A central value with its 95 % interval.
            requests_per_second (Interval): A central value with its 95 % interval.
            highest (bool | Unset):  Default: False.
            gpu (str | Unset):  Default: ''.
            gpus (int | Unset):  Default: 1.
            price_basis (ServedLoadPriceBasis | Unset):  Default: 'stated'.
            read_per_second (Interval | None | Unset): of the prompts' tokens, of a model that writes
            ttft_ms (float | None | Unset):
            tpot_ms (float | None | Unset):
            energy (Energy | None | Unset):
    """

    load: str
    users: int
    holds: bool | None
    usd_per_hour: float | None
    per_second: Interval
    requests_per_second: Interval
    highest: bool | Unset = False
    gpu: str | Unset = ""
    gpus: int | Unset = 1
    price_basis: ServedLoadPriceBasis | Unset = "stated"
    read_per_second: Interval | None | Unset = UNSET
    ttft_ms: float | None | Unset = UNSET
    tpot_ms: float | None | Unset = UNSET
    energy: Energy | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.energy import Energy  # noqa: PLC0415
        from ..models.interval import Interval  # noqa: PLC0415

        load = self.load

        users = self.users

        holds: bool | None
        holds = self.holds

        usd_per_hour: float | None
        usd_per_hour = self.usd_per_hour

        per_second = self.per_second.to_dict()

        requests_per_second = self.requests_per_second.to_dict()

        highest = self.highest

        gpu = self.gpu

        gpus = self.gpus

        price_basis: str | Unset = UNSET
        if not isinstance(self.price_basis, Unset):
            price_basis = self.price_basis

        read_per_second: dict[str, Any] | None | Unset
        if isinstance(self.read_per_second, Unset):
            read_per_second = UNSET
        elif isinstance(self.read_per_second, Interval):
            read_per_second = self.read_per_second.to_dict()
        else:
            read_per_second = self.read_per_second

        ttft_ms: float | None | Unset
        if isinstance(self.ttft_ms, Unset):
            ttft_ms = UNSET
        else:
            ttft_ms = self.ttft_ms

        tpot_ms: float | None | Unset
        if isinstance(self.tpot_ms, Unset):
            tpot_ms = UNSET
        else:
            tpot_ms = self.tpot_ms

        energy: dict[str, Any] | None | Unset
        if isinstance(self.energy, Unset):
            energy = UNSET
        elif isinstance(self.energy, Energy):
            energy = self.energy.to_dict()
        else:
            energy = self.energy

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "load": load,
                "users": users,
                "holds": holds,
                "usd_per_hour": usd_per_hour,
                "per_second": per_second,
                "requests_per_second": requests_per_second,
            }
        )
        if highest is not UNSET:
            field_dict["highest"] = highest
        if gpu is not UNSET:
            field_dict["gpu"] = gpu
        if gpus is not UNSET:
            field_dict["gpus"] = gpus
        if price_basis is not UNSET:
            field_dict["price_basis"] = price_basis
        if read_per_second is not UNSET:
            field_dict["read_per_second"] = read_per_second
        if ttft_ms is not UNSET:
            field_dict["ttft_ms"] = ttft_ms
        if tpot_ms is not UNSET:
            field_dict["tpot_ms"] = tpot_ms
        if energy is not UNSET:
            field_dict["energy"] = energy

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.energy import Energy  # noqa: PLC0415
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        load = d.pop("load")

        users = d.pop("users")

        def _parse_holds(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        holds = _parse_holds(d.pop("holds"))

        def _parse_usd_per_hour(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        usd_per_hour = _parse_usd_per_hour(d.pop("usd_per_hour"))

        per_second = Interval.from_dict(d.pop("per_second"))

        requests_per_second = Interval.from_dict(d.pop("requests_per_second"))

        highest = d.pop("highest", UNSET)

        gpu = d.pop("gpu", UNSET)

        gpus = d.pop("gpus", UNSET)

        _price_basis = d.pop("price_basis", UNSET)
        price_basis: ServedLoadPriceBasis | Unset
        if isinstance(_price_basis, Unset):
            price_basis = UNSET
        else:
            price_basis = check_served_load_price_basis(_price_basis)

        def _parse_read_per_second(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                read_per_second_type_0 = Interval.from_dict(data)

                return read_per_second_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        read_per_second = _parse_read_per_second(d.pop("read_per_second", UNSET))

        def _parse_ttft_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        ttft_ms = _parse_ttft_ms(d.pop("ttft_ms", UNSET))

        def _parse_tpot_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        tpot_ms = _parse_tpot_ms(d.pop("tpot_ms", UNSET))

        def _parse_energy(data: object) -> Energy | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                energy_type_0 = Energy.from_dict(data)

                return energy_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Energy | None | Unset, data)

        energy = _parse_energy(d.pop("energy", UNSET))

        served_load = cls(
            load=load,
            users=users,
            holds=holds,
            usd_per_hour=usd_per_hour,
            per_second=per_second,
            requests_per_second=requests_per_second,
            highest=highest,
            gpu=gpu,
            gpus=gpus,
            price_basis=price_basis,
            read_per_second=read_per_second,
            ttft_ms=ttft_ms,
            tpot_ms=tpot_ms,
            energy=energy,
        )

        return served_load
