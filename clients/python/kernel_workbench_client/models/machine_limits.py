from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.machine_limits_absent import MachineLimitsAbsent


T = TypeVar("T", bound="MachineLimits")


@_attrs_define
class MachineLimits:
    """Times in µs of a barrier of a block, of one of all SMs and of a copy of 4 bytes to another GPU; rates in TB/s of
    shared memory, all SMs together, and of copies to another GPU. `absent` says in a sentence why one is not known.

        Attributes:
            block_barrier_us (float | None | Unset):
            grid_barrier_us (float | None | Unset):
            shared_tbps (float | None | Unset):
            exchange_tbps (float | None | Unset):
            exchange_us (float | None | Unset):
            absent (MachineLimitsAbsent | Unset):
    """

    block_barrier_us: float | None | Unset = UNSET
    grid_barrier_us: float | None | Unset = UNSET
    shared_tbps: float | None | Unset = UNSET
    exchange_tbps: float | None | Unset = UNSET
    exchange_us: float | None | Unset = UNSET
    absent: MachineLimitsAbsent | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        block_barrier_us: float | None | Unset
        if isinstance(self.block_barrier_us, Unset):
            block_barrier_us = UNSET
        else:
            block_barrier_us = self.block_barrier_us

        grid_barrier_us: float | None | Unset
        if isinstance(self.grid_barrier_us, Unset):
            grid_barrier_us = UNSET
        else:
            grid_barrier_us = self.grid_barrier_us

        shared_tbps: float | None | Unset
        if isinstance(self.shared_tbps, Unset):
            shared_tbps = UNSET
        else:
            shared_tbps = self.shared_tbps

        exchange_tbps: float | None | Unset
        if isinstance(self.exchange_tbps, Unset):
            exchange_tbps = UNSET
        else:
            exchange_tbps = self.exchange_tbps

        exchange_us: float | None | Unset
        if isinstance(self.exchange_us, Unset):
            exchange_us = UNSET
        else:
            exchange_us = self.exchange_us

        absent: dict[str, Any] | Unset = UNSET
        if not isinstance(self.absent, Unset):
            absent = self.absent.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if block_barrier_us is not UNSET:
            field_dict["block_barrier_us"] = block_barrier_us
        if grid_barrier_us is not UNSET:
            field_dict["grid_barrier_us"] = grid_barrier_us
        if shared_tbps is not UNSET:
            field_dict["shared_tbps"] = shared_tbps
        if exchange_tbps is not UNSET:
            field_dict["exchange_tbps"] = exchange_tbps
        if exchange_us is not UNSET:
            field_dict["exchange_us"] = exchange_us
        if absent is not UNSET:
            field_dict["absent"] = absent

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.machine_limits_absent import MachineLimitsAbsent  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_block_barrier_us(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        block_barrier_us = _parse_block_barrier_us(d.pop("block_barrier_us", UNSET))

        def _parse_grid_barrier_us(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        grid_barrier_us = _parse_grid_barrier_us(d.pop("grid_barrier_us", UNSET))

        def _parse_shared_tbps(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        shared_tbps = _parse_shared_tbps(d.pop("shared_tbps", UNSET))

        def _parse_exchange_tbps(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        exchange_tbps = _parse_exchange_tbps(d.pop("exchange_tbps", UNSET))

        def _parse_exchange_us(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        exchange_us = _parse_exchange_us(d.pop("exchange_us", UNSET))

        _absent = d.pop("absent", UNSET)
        absent: MachineLimitsAbsent | Unset
        if isinstance(_absent, Unset):
            absent = UNSET
        else:
            absent = MachineLimitsAbsent.from_dict(_absent)

        machine_limits = cls(
            block_barrier_us=block_barrier_us,
            grid_barrier_us=grid_barrier_us,
            shared_tbps=shared_tbps,
            exchange_tbps=exchange_tbps,
            exchange_us=exchange_us,
            absent=absent,
        )

        return machine_limits
