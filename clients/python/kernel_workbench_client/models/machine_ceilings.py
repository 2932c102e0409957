from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.machine_ceilings_matrix_tflops import MachineCeilingsMatrixTflops
    from ..models.machine_rates import MachineRates


T = TypeVar("T", bound="MachineCeilings")


@_attrs_define
class MachineCeilings:
    """The rates under settled clocks, those of single calls after pauses as `burst`, and an empty launch in µs.

    Attributes:
        read_tbps (float):
        copy_tbps (float):
        matrix_tflops (MachineCeilingsMatrixTflops):
        launch_us (float):
        burst (MachineRates | None | Unset):
    """

    read_tbps: float
    copy_tbps: float
    matrix_tflops: MachineCeilingsMatrixTflops
    launch_us: float
    burst: MachineRates | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.machine_rates import MachineRates  # noqa: PLC0415

        read_tbps = self.read_tbps

        copy_tbps = self.copy_tbps

        matrix_tflops = self.matrix_tflops.to_dict()

        launch_us = self.launch_us

        burst: dict[str, Any] | None | Unset
        if isinstance(self.burst, Unset):
            burst = UNSET
        elif isinstance(self.burst, MachineRates):
            burst = self.burst.to_dict()
        else:
            burst = self.burst

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "read_tbps": read_tbps,
                "copy_tbps": copy_tbps,
                "matrix_tflops": matrix_tflops,
                "launch_us": launch_us,
            }
        )
        if burst is not UNSET:
            field_dict["burst"] = burst

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.machine_ceilings_matrix_tflops import MachineCeilingsMatrixTflops  # noqa: PLC0415
        from ..models.machine_rates import MachineRates  # noqa: PLC0415

        d = dict(src_dict)
        read_tbps = d.pop("read_tbps")

        copy_tbps = d.pop("copy_tbps")

        matrix_tflops = MachineCeilingsMatrixTflops.from_dict(d.pop("matrix_tflops"))

        launch_us = d.pop("launch_us")

        def _parse_burst(data: object) -> MachineRates | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                burst_type_0 = MachineRates.from_dict(data)

                return burst_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MachineRates | None | Unset, data)

        burst = _parse_burst(d.pop("burst", UNSET))

        machine_ceilings = cls(
            read_tbps=read_tbps,
            copy_tbps=copy_tbps,
            matrix_tflops=matrix_tflops,
            launch_us=launch_us,
            burst=burst,
        )

        return machine_ceilings
