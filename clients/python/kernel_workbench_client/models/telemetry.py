from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Telemetry")


@_attrs_define
class Telemetry:
    """Clocks and power while something was measured; None where the machine does not tell.

    Attributes:
        sm_mhz_median (float | None | Unset):
        sm_mhz_min (float | None | Unset):
        sm_mhz_max (float | None | Unset):
        power_w_median (float | None | Unset):
        power_w_mean (float | None | Unset): weighted by time
        power_gap_s (float | None | Unset): the longest time between two readings of power
        temperature_c_max (float | None | Unset):
        throttle_reasons (list[str] | Unset):
        others_cpu_share (float | None | Unset): of the CPU, what other programs used
        others_gpu_count (int | None | Unset): the most other programs that held the GPU at once
        others_gpu_seconds (float | None | Unset): how long any of them was seen; 0: none
        others_gpu_gib (float | None | Unset): the most GPU memory that they held
    """

    sm_mhz_median: float | None | Unset = UNSET
    sm_mhz_min: float | None | Unset = UNSET
    sm_mhz_max: float | None | Unset = UNSET
    power_w_median: float | None | Unset = UNSET
    power_w_mean: float | None | Unset = UNSET
    power_gap_s: float | None | Unset = UNSET
    temperature_c_max: float | None | Unset = UNSET
    throttle_reasons: list[str] | Unset = UNSET
    others_cpu_share: float | None | Unset = UNSET
    others_gpu_count: int | None | Unset = UNSET
    others_gpu_seconds: float | None | Unset = UNSET
    others_gpu_gib: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        sm_mhz_median: float | None | Unset
        if isinstance(self.sm_mhz_median, Unset):
            sm_mhz_median = UNSET
        else:
            sm_mhz_median = self.sm_mhz_median

        sm_mhz_min: float | None | Unset
        if isinstance(self.sm_mhz_min, Unset):
            sm_mhz_min = UNSET
        else:
            sm_mhz_min = self.sm_mhz_min

        sm_mhz_max: float | None | Unset
        if isinstance(self.sm_mhz_max, Unset):
            sm_mhz_max = UNSET
        else:
            sm_mhz_max = self.sm_mhz_max

        power_w_median: float | None | Unset
        if isinstance(self.power_w_median, Unset):
            power_w_median = UNSET
        else:
            power_w_median = self.power_w_median

        power_w_mean: float | None | Unset
        if isinstance(self.power_w_mean, Unset):
            power_w_mean = UNSET
        else:
            power_w_mean = self.power_w_mean

        power_gap_s: float | None | Unset
        if isinstance(self.power_gap_s, Unset):
            power_gap_s = UNSET
        else:
            power_gap_s = self.power_gap_s

        temperature_c_max: float | None | Unset
        if isinstance(self.temperature_c_max, Unset):
            temperature_c_max = UNSET
        else:
            temperature_c_max = self.temperature_c_max

        throttle_reasons: list[str] | Unset = UNSET
        if not isinstance(self.throttle_reasons, Unset):
            throttle_reasons = self.throttle_reasons

        others_cpu_share: float | None | Unset
        if isinstance(self.others_cpu_share, Unset):
            others_cpu_share = UNSET
        else:
            others_cpu_share = self.others_cpu_share

        others_gpu_count: int | None | Unset
        if isinstance(self.others_gpu_count, Unset):
            others_gpu_count = UNSET
        else:
            others_gpu_count = self.others_gpu_count

        others_gpu_seconds: float | None | Unset
        if isinstance(self.others_gpu_seconds, Unset):
            others_gpu_seconds = UNSET
        else:
            others_gpu_seconds = self.others_gpu_seconds

        others_gpu_gib: float | None | Unset
        if isinstance(self.others_gpu_gib, Unset):
            others_gpu_gib = UNSET
        else:
            others_gpu_gib = self.others_gpu_gib

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if sm_mhz_median is not UNSET:
            field_dict["sm_mhz_median"] = sm_mhz_median
        if sm_mhz_min is not UNSET:
            field_dict["sm_mhz_min"] = sm_mhz_min
        if sm_mhz_max is not UNSET:
            field_dict["sm_mhz_max"] = sm_mhz_max
        if power_w_median is not UNSET:
            field_dict["power_w_median"] = power_w_median
        if power_w_mean is not UNSET:
            field_dict["power_w_mean"] = power_w_mean
        if power_gap_s is not UNSET:
            field_dict["power_gap_s"] = power_gap_s
        if temperature_c_max is not UNSET:
            field_dict["temperature_c_max"] = temperature_c_max
        if throttle_reasons is not UNSET:
            field_dict["throttle_reasons"] = throttle_reasons
        if others_cpu_share is not UNSET:
            field_dict["others_cpu_share"] = others_cpu_share
        if others_gpu_count is not UNSET:
            field_dict["others_gpu_count"] = others_gpu_count
        if others_gpu_seconds is not UNSET:
            field_dict["others_gpu_seconds"] = others_gpu_seconds
        if others_gpu_gib is not UNSET:
            field_dict["others_gpu_gib"] = others_gpu_gib

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_sm_mhz_median(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        sm_mhz_median = _parse_sm_mhz_median(d.pop("sm_mhz_median", UNSET))

        def _parse_sm_mhz_min(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        sm_mhz_min = _parse_sm_mhz_min(d.pop("sm_mhz_min", UNSET))

        def _parse_sm_mhz_max(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        sm_mhz_max = _parse_sm_mhz_max(d.pop("sm_mhz_max", UNSET))

        def _parse_power_w_median(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        power_w_median = _parse_power_w_median(d.pop("power_w_median", UNSET))

        def _parse_power_w_mean(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        power_w_mean = _parse_power_w_mean(d.pop("power_w_mean", UNSET))

        def _parse_power_gap_s(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        power_gap_s = _parse_power_gap_s(d.pop("power_gap_s", UNSET))

        def _parse_temperature_c_max(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        temperature_c_max = _parse_temperature_c_max(d.pop("temperature_c_max", UNSET))

        throttle_reasons = cast(list[str], d.pop("throttle_reasons", UNSET))

        def _parse_others_cpu_share(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        others_cpu_share = _parse_others_cpu_share(d.pop("others_cpu_share", UNSET))

        def _parse_others_gpu_count(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        others_gpu_count = _parse_others_gpu_count(d.pop("others_gpu_count", UNSET))

        def _parse_others_gpu_seconds(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        others_gpu_seconds = _parse_others_gpu_seconds(d.pop("others_gpu_seconds", UNSET))

        def _parse_others_gpu_gib(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        others_gpu_gib = _parse_others_gpu_gib(d.pop("others_gpu_gib", UNSET))

        telemetry = cls(
            sm_mhz_median=sm_mhz_median,
            sm_mhz_min=sm_mhz_min,
            sm_mhz_max=sm_mhz_max,
            power_w_median=power_w_median,
            power_w_mean=power_w_mean,
            power_gap_s=power_gap_s,
            temperature_c_max=temperature_c_max,
            throttle_reasons=throttle_reasons,
            others_cpu_share=others_cpu_share,
            others_gpu_count=others_gpu_count,
            others_gpu_seconds=others_gpu_seconds,
            others_gpu_gib=others_gpu_gib,
        )

        return telemetry
