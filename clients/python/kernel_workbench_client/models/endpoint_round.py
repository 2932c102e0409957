from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="EndpointRound")


@_attrs_define
class EndpointRound:
    """One round of requests: `when` is before or after verify, `median` that of the first promise.

    Attributes:
        when (str):
        at (str): when it began, ISO 8601 UTC
        seconds (float):
        requests (int):
        failed (int):
        median (Interval | None):
    """

    when: str
    at: str
    seconds: float
    requests: int
    failed: int
    median: Interval | None

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415

        when = self.when

        at = self.at

        seconds = self.seconds

        requests = self.requests

        failed = self.failed

        median: dict[str, Any] | None
        if isinstance(self.median, Interval):
            median = self.median.to_dict()
        else:
            median = self.median

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "when": when,
                "at": at,
                "seconds": seconds,
                "requests": requests,
                "failed": failed,
                "median": median,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        when = d.pop("when")

        at = d.pop("at")

        seconds = d.pop("seconds")

        requests = d.pop("requests")

        failed = d.pop("failed")

        def _parse_median(data: object) -> Interval | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                median_type_0 = Interval.from_dict(data)

                return median_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None, data)

        median = _parse_median(d.pop("median"))

        endpoint_round = cls(
            when=when,
            at=at,
            seconds=seconds,
            requests=requests,
            failed=failed,
            median=median,
        )

        return endpoint_round
