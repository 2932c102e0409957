from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.ceilings_basis import CeilingsBasis, check_ceilings_basis
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.ceilings_matrix_tflops import CeilingsMatrixTflops
    from ..models.rates import Rates


T = TypeVar("T", bound="Ceilings")


@_attrs_define
class Ceilings:
    """Measured limits of the device under settled clocks, and the time of an empty launch in microseconds.

    `burst`: those of single calls after pauses, where clocks are at their highest; None on a CPU and in documents that
    know one regime.

        Attributes:
            read_tbps (float):
            copy_tbps (float):
            matrix_tflops (CeilingsMatrixTflops):
            launch_us (float):
            burst (None | Rates | Unset):
            basis (CeilingsBasis | Unset):  Default: 'measured'.
    """

    read_tbps: float
    copy_tbps: float
    matrix_tflops: CeilingsMatrixTflops
    launch_us: float
    burst: None | Rates | Unset = UNSET
    basis: CeilingsBasis | Unset = "measured"

    def to_dict(self) -> dict[str, Any]:
        from ..models.rates import Rates  # noqa: PLC0415

        read_tbps = self.read_tbps

        copy_tbps = self.copy_tbps

        matrix_tflops = self.matrix_tflops.to_dict()

        launch_us = self.launch_us

        burst: dict[str, Any] | None | Unset
        if isinstance(self.burst, Unset):
            burst = UNSET
        elif isinstance(self.burst, Rates):
            burst = self.burst.to_dict()
        else:
            burst = self.burst

        basis: str | Unset = UNSET
        if not isinstance(self.basis, Unset):
            basis = self.basis

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
        if basis is not UNSET:
            field_dict["basis"] = basis

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.ceilings_matrix_tflops import CeilingsMatrixTflops  # noqa: PLC0415
        from ..models.rates import Rates  # noqa: PLC0415

        d = dict(src_dict)
        read_tbps = d.pop("read_tbps")

        copy_tbps = d.pop("copy_tbps")

        matrix_tflops = CeilingsMatrixTflops.from_dict(d.pop("matrix_tflops"))

        launch_us = d.pop("launch_us")

        def _parse_burst(data: object) -> None | Rates | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                burst_type_0 = Rates.from_dict(data)

                return burst_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Rates | Unset, data)

        burst = _parse_burst(d.pop("burst", UNSET))

        _basis = d.pop("basis", UNSET)
        basis: CeilingsBasis | Unset
        if isinstance(_basis, Unset):
            basis = UNSET
        else:
            basis = check_ceilings_basis(_basis)

        ceilings = cls(
            read_tbps=read_tbps,
            copy_tbps=copy_tbps,
            matrix_tflops=matrix_tflops,
            launch_us=launch_us,
            burst=burst,
            basis=basis,
        )

        return ceilings
