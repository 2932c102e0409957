from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="EndpointRatio")


@_attrs_define
class EndpointRatio:
    """The endpoint's median over the plan's, above 1 where the plan is faster.

    `ratio` has as its ends the quotients of the two medians' 95 % intervals; it is no paired interval.

        Attributes:
            metric (str):
            unit (str):
            endpoint (Interval): A central value with its 95 % interval.
            after (Interval): A central value with its 95 % interval.
            ratio (Interval): A central value with its 95 % interval.
            n (int | None | Unset):
    """

    metric: str
    unit: str
    endpoint: Interval
    after: Interval
    ratio: Interval
    n: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        metric = self.metric

        unit = self.unit

        endpoint = self.endpoint.to_dict()

        after = self.after.to_dict()

        ratio = self.ratio.to_dict()

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
                "endpoint": endpoint,
                "after": after,
                "ratio": ratio,
            }
        )
        if n is not UNSET:
            field_dict["n"] = n

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        metric = d.pop("metric")

        unit = d.pop("unit")

        endpoint = Interval.from_dict(d.pop("endpoint"))

        after = Interval.from_dict(d.pop("after"))

        ratio = Interval.from_dict(d.pop("ratio"))

        def _parse_n(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        n = _parse_n(d.pop("n", UNSET))

        endpoint_ratio = cls(
            metric=metric,
            unit=unit,
            endpoint=endpoint,
            after=after,
            ratio=ratio,
            n=n,
        )

        return endpoint_ratio
