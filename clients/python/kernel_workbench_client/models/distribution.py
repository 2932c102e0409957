from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.distribution_basis import DistributionBasis, check_distribution_basis
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.distribution_percentiles import DistributionPercentiles


T = TypeVar("T", bound="Distribution")


@_attrs_define
class Distribution:
    """Samples of one metric, with percentiles by sorted[floor(n·p)]; nothing is dropped.

    Attributes:
        metric (str):
        unit (str):
        samples (list[float]):
        percentiles (DistributionPercentiles):
        n (int | None | Unset):
        basis (DistributionBasis | Unset):  Default: 'measured'.
    """

    metric: str
    unit: str
    samples: list[float]
    percentiles: DistributionPercentiles
    n: int | None | Unset = UNSET
    basis: DistributionBasis | Unset = "measured"

    def to_dict(self) -> dict[str, Any]:
        metric = self.metric

        unit = self.unit

        samples = self.samples

        percentiles = self.percentiles.to_dict()

        n: int | None | Unset
        if isinstance(self.n, Unset):
            n = UNSET
        else:
            n = self.n

        basis: str | Unset = UNSET
        if not isinstance(self.basis, Unset):
            basis = self.basis

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "metric": metric,
                "unit": unit,
                "samples": samples,
                "percentiles": percentiles,
            }
        )
        if n is not UNSET:
            field_dict["n"] = n
        if basis is not UNSET:
            field_dict["basis"] = basis

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.distribution_percentiles import DistributionPercentiles  # noqa: PLC0415

        d = dict(src_dict)
        metric = d.pop("metric")

        unit = d.pop("unit")

        samples = cast(list[float], d.pop("samples"))

        percentiles = DistributionPercentiles.from_dict(d.pop("percentiles"))

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        _basis = d.pop("basis", UNSET)
        basis: DistributionBasis | Unset
        if isinstance(_basis, Unset):
            basis = UNSET
        else:
            basis = check_distribution_basis(_basis)

        distribution = cls(
            metric=metric,
            unit=unit,
            samples=samples,
            percentiles=percentiles,
            n=n,
            basis=basis,
        )

        return distribution
