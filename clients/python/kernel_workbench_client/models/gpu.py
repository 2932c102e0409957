from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Gpu")


@_attrs_define
class Gpu:
    """A GPU class. Rates in TFLOP/s and TB/s, power in W, memory in GiB. `sm` is compute capability × 10.

    `matrix_flop_per_clock` is what one SM's matrix units do in bf16 per clock; with the highest SM clock it bounds
    what any kernel can ever reach. The CPU has no such figures: 0 means unknown. `source` tells where the rates are
    from: `datasheet`, or `measured` in bursts by the bring-up.

        Attributes:
            gpu_class (str):
            name (str):
            sm (int):
            sms (int):
            bf16_tflops (float):
            fp8_tflops (float):
            memory_tbps (float):
            memory_gib (float):
            watts (float):
            max_clock_ghz (float | Unset):  Default: 0.0.
            matrix_flop_per_clock (int | Unset):  Default: 0.
            source (str | Unset):  Default: 'datasheet'.
    """

    gpu_class: str
    name: str
    sm: int
    sms: int
    bf16_tflops: float
    fp8_tflops: float
    memory_tbps: float
    memory_gib: float
    watts: float
    max_clock_ghz: float | Unset = 0.0
    matrix_flop_per_clock: int | Unset = 0
    source: str | Unset = "datasheet"

    def to_dict(self) -> dict[str, Any]:
        gpu_class = self.gpu_class

        name = self.name

        sm = self.sm

        sms = self.sms

        bf16_tflops = self.bf16_tflops

        fp8_tflops = self.fp8_tflops

        memory_tbps = self.memory_tbps

        memory_gib = self.memory_gib

        watts = self.watts

        max_clock_ghz = self.max_clock_ghz

        matrix_flop_per_clock = self.matrix_flop_per_clock

        source = self.source

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "gpu_class": gpu_class,
                "name": name,
                "sm": sm,
                "sms": sms,
                "bf16_tflops": bf16_tflops,
                "fp8_tflops": fp8_tflops,
                "memory_tbps": memory_tbps,
                "memory_gib": memory_gib,
                "watts": watts,
            }
        )
        if max_clock_ghz is not UNSET:
            field_dict["max_clock_ghz"] = max_clock_ghz
        if matrix_flop_per_clock is not UNSET:
            field_dict["matrix_flop_per_clock"] = matrix_flop_per_clock
        if source is not UNSET:
            field_dict["source"] = source

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        gpu_class = d.pop("gpu_class")

        name = d.pop("name")

        sm = d.pop("sm")

        sms = d.pop("sms")

        bf16_tflops = d.pop("bf16_tflops")

        fp8_tflops = d.pop("fp8_tflops")

        memory_tbps = d.pop("memory_tbps")

        memory_gib = d.pop("memory_gib")

        watts = d.pop("watts")

        max_clock_ghz = d.pop("max_clock_ghz", UNSET)

        matrix_flop_per_clock = d.pop("matrix_flop_per_clock", UNSET)

        source = d.pop("source", UNSET)

        gpu = cls(
            gpu_class=gpu_class,
            name=name,
            sm=sm,
            sms=sms,
            bf16_tflops=bf16_tflops,
            fp8_tflops=fp8_tflops,
            memory_tbps=memory_tbps,
            memory_gib=memory_gib,
            watts=watts,
            max_clock_ghz=max_clock_ghz,
            matrix_flop_per_clock=matrix_flop_per_clock,
            source=source,
        )

        return gpu
