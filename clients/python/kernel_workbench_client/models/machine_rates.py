from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.machine_rates_matrix_tflops import MachineRatesMatrixTflops


T = TypeVar("T", bound="MachineRates")


@_attrs_define
class MachineRates:
    """Measured rates in TB/s, and in TFLOP/s by the type of the numbers.

    Attributes:
        read_tbps (float):
        copy_tbps (float):
        matrix_tflops (MachineRatesMatrixTflops):
    """

    read_tbps: float
    copy_tbps: float
    matrix_tflops: MachineRatesMatrixTflops

    def to_dict(self) -> dict[str, Any]:
        read_tbps = self.read_tbps

        copy_tbps = self.copy_tbps

        matrix_tflops = self.matrix_tflops.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "read_tbps": read_tbps,
                "copy_tbps": copy_tbps,
                "matrix_tflops": matrix_tflops,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.machine_rates_matrix_tflops import MachineRatesMatrixTflops  # noqa: PLC0415

        d = dict(src_dict)
        read_tbps = d.pop("read_tbps")

        copy_tbps = d.pop("copy_tbps")

        matrix_tflops = MachineRatesMatrixTflops.from_dict(d.pop("matrix_tflops"))

        machine_rates = cls(
            read_tbps=read_tbps,
            copy_tbps=copy_tbps,
            matrix_tflops=matrix_tflops,
        )

        return machine_rates
