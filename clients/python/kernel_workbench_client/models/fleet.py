from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="Fleet")


@_attrs_define
class Fleet:
    """GPUs for a demand on one side, and what they cost in USD; intervals follow from that of the throughput.

    Attributes:
        gpus (Interval): A central value with its 95 % interval.
        month (Interval): A central value with its 95 % interval.
        year (Interval): A central value with its 95 % interval.
        thousand_requests (Interval): A central value with its 95 % interval.
        user_month (Interval | None | Unset): the month's bill by the users at once
    """

    gpus: Interval
    month: Interval
    year: Interval
    thousand_requests: Interval
    user_month: Interval | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415

        gpus = self.gpus.to_dict()

        month = self.month.to_dict()

        year = self.year.to_dict()

        thousand_requests = self.thousand_requests.to_dict()

        user_month: dict[str, Any] | None | Unset
        if isinstance(self.user_month, Unset):
            user_month = UNSET
        elif isinstance(self.user_month, Interval):
            user_month = self.user_month.to_dict()
        else:
            user_month = self.user_month

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "gpus": gpus,
                "month": month,
                "year": year,
                "thousand_requests": thousand_requests,
            }
        )
        if user_month is not UNSET:
            field_dict["user_month"] = user_month

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        gpus = Interval.from_dict(d.pop("gpus"))

        month = Interval.from_dict(d.pop("month"))

        year = Interval.from_dict(d.pop("year"))

        thousand_requests = Interval.from_dict(d.pop("thousand_requests"))

        def _parse_user_month(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                user_month_type_0 = Interval.from_dict(data)

                return user_month_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        user_month = _parse_user_month(d.pop("user_month", UNSET))

        fleet = cls(
            gpus=gpus,
            month=month,
            year=year,
            thousand_requests=thousand_requests,
            user_month=user_month,
        )

        return fleet
