from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.load_metric_percentiles import LoadMetricPercentiles


T = TypeVar("T", bound="LoadMetric")


@_attrs_define
class LoadMetric:
    """One metric over all requests that gave it, in `samples` values: percentiles keyed `p50`, with 95 % intervals.

    Attributes:
        metric (str):
        unit (str):
        samples (int):
        percentiles (LoadMetricPercentiles):
        n (int | None | Unset):
    """

    metric: str
    unit: str
    samples: int
    percentiles: LoadMetricPercentiles
    n: int | None | Unset = UNSET

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

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.load_metric_percentiles import LoadMetricPercentiles  # noqa: PLC0415

        d = dict(src_dict)
        metric = d.pop("metric")

        unit = d.pop("unit")

        samples = d.pop("samples")

        percentiles = LoadMetricPercentiles.from_dict(d.pop("percentiles"))

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        load_metric = cls(
            metric=metric,
            unit=unit,
            samples=samples,
            percentiles=percentiles,
            n=n,
        )

        return load_metric
