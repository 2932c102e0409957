from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.objective_direction import ObjectiveDirection, check_objective_direction
from ..models.objective_metric import ObjectiveMetric, check_objective_metric
from ..types import UNSET, Unset

T = TypeVar("T", bound="Objective")


@_attrs_define
class Objective:
    """One promise of the SLA: `metric` at `percentile` on the right side of `limit`, or its median relative to today.

    `at_least_faster` stands in place of a limit: the ratio of the medians before and after, above 1 when after is
    better, which for throughput means more of it.

    ttft, ttf_n, tpot, itl, e2e and batch_latency are in ms. throughput is in what the model gives per second, tokens/s
    or images/s, and cost_per_mtok in USD for a million of them. Unless stated, the unit becomes that of the model.

        Attributes:
            metric (ObjectiveMetric):
            n (int | None | Unset): which token, for ttf_n
            percentile (float | Unset):  Default: 50.0.
            limit (float | None | Unset):
            at_least_faster (float | None | Unset): in place of a limit: how many times better than today, in the median
            unit (str | Unset):  Default: ''.
            direction (ObjectiveDirection | Unset):  Default: ''.
    """

    metric: ObjectiveMetric
    n: int | None | Unset = UNSET
    percentile: float | Unset = 50.0
    limit: float | None | Unset = UNSET
    at_least_faster: float | None | Unset = UNSET
    unit: str | Unset = ""
    direction: ObjectiveDirection | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        metric: str = self.metric

        n: int | None | Unset
        if isinstance(self.n, Unset):
            n = UNSET
        else:
            n = self.n

        percentile = self.percentile

        limit: float | None | Unset
        if isinstance(self.limit, Unset):
            limit = UNSET
        else:
            limit = self.limit

        at_least_faster: float | None | Unset
        if isinstance(self.at_least_faster, Unset):
            at_least_faster = UNSET
        else:
            at_least_faster = self.at_least_faster

        unit = self.unit

        direction: str | Unset = UNSET
        if not isinstance(self.direction, Unset):
            direction = self.direction

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "metric": metric,
            }
        )
        if n is not UNSET:
            field_dict["n"] = n
        if percentile is not UNSET:
            field_dict["percentile"] = percentile
        if limit is not UNSET:
            field_dict["limit"] = limit
        if at_least_faster is not UNSET:
            field_dict["at_least_faster"] = at_least_faster
        if unit is not UNSET:
            field_dict["unit"] = unit
        if direction is not UNSET:
            field_dict["direction"] = direction

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        metric = check_objective_metric(d.pop("metric"))

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        percentile = d.pop("percentile", UNSET)

        def _parse_limit(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        limit = _parse_limit(d.pop("limit", UNSET))

        def _parse_at_least_faster(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        at_least_faster = _parse_at_least_faster(d.pop("at_least_faster", UNSET))

        unit = d.pop("unit", UNSET)

        _direction = d.pop("direction", UNSET)
        direction: ObjectiveDirection | Unset
        if isinstance(_direction, Unset):
            direction = UNSET
        else:
            direction = check_objective_direction(_direction)

        objective = cls(
            metric=metric,
            n=n,
            percentile=percentile,
            limit=limit,
            at_least_faster=at_least_faster,
            unit=unit,
            direction=direction,
        )

        return objective
