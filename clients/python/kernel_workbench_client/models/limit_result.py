from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.load_result import LoadResult
    from ..models.saturation import Saturation


T = TypeVar("T", bound="LimitResult")


@_attrs_define
class LimitResult:
    """The highest load at which every objective held, and every load that was tried, by rising load.

    Of a closed loop that is `users` of `most`, of an open one `rate` of `most_rate`, in requests per second, and of
    recorded arrivals `speed` of `most_speed`, in times as fast as recorded; `users` are then those that were open on
    average. All are 0 where none was met. `confidence` is that of the whole search;
    each load was judged with `confidence_each`. `unfinished` says in a sentence why the search ended before its rule
    did; "" where it did not.

        Attributes:
            users (int):
            most (int):
            confidence (float):
            confidence_each (float):
            loads (list[LoadResult]):
            version (Literal[1] | Unset):  Default: 1.
            rate (float | None | Unset):
            most_rate (float | None | Unset):
            speed (float | None | Unset):
            most_speed (float | None | Unset):
            saturation (None | Saturation | Unset): None where throughput still rose at every load
            unfinished (str | Unset):  Default: ''.
    """

    users: int
    most: int
    confidence: float
    confidence_each: float
    loads: list[LoadResult]
    version: Literal[1] | Unset = 1
    rate: float | None | Unset = UNSET
    most_rate: float | None | Unset = UNSET
    speed: float | None | Unset = UNSET
    most_speed: float | None | Unset = UNSET
    saturation: None | Saturation | Unset = UNSET
    unfinished: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        from ..models.saturation import Saturation  # noqa: PLC0415

        users = self.users

        most = self.most

        confidence = self.confidence

        confidence_each = self.confidence_each

        loads = []
        for loads_item_data in self.loads:
            loads_item = loads_item_data.to_dict()
            loads.append(loads_item)

        version = self.version

        rate: float | None | Unset
        if isinstance(self.rate, Unset):
            rate = UNSET
        else:
            rate = self.rate

        most_rate: float | None | Unset
        if isinstance(self.most_rate, Unset):
            most_rate = UNSET
        else:
            most_rate = self.most_rate

        speed: float | None | Unset
        if isinstance(self.speed, Unset):
            speed = UNSET
        else:
            speed = self.speed

        most_speed: float | None | Unset
        if isinstance(self.most_speed, Unset):
            most_speed = UNSET
        else:
            most_speed = self.most_speed

        saturation: dict[str, Any] | None | Unset
        if isinstance(self.saturation, Unset):
            saturation = UNSET
        elif isinstance(self.saturation, Saturation):
            saturation = self.saturation.to_dict()
        else:
            saturation = self.saturation

        unfinished = self.unfinished

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "users": users,
                "most": most,
                "confidence": confidence,
                "confidence_each": confidence_each,
                "loads": loads,
            }
        )
        if version is not UNSET:
            field_dict["version"] = version
        if rate is not UNSET:
            field_dict["rate"] = rate
        if most_rate is not UNSET:
            field_dict["most_rate"] = most_rate
        if speed is not UNSET:
            field_dict["speed"] = speed
        if most_speed is not UNSET:
            field_dict["most_speed"] = most_speed
        if saturation is not UNSET:
            field_dict["saturation"] = saturation
        if unfinished is not UNSET:
            field_dict["unfinished"] = unfinished

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.load_result import LoadResult  # noqa: PLC0415
        from ..models.saturation import Saturation  # noqa: PLC0415

        d = dict(src_dict)
        users = d.pop("users")

        most = d.pop("most")

        confidence = d.pop("confidence")

        confidence_each = d.pop("confidence_each")

        loads = []
        _loads = d.pop("loads")
        for loads_item_data in _loads:
            loads_item = LoadResult.from_dict(loads_item_data)

            loads.append(loads_item)

        version = cast(Literal[1] | Unset, d.pop("version", UNSET))
        if version != 1 and not isinstance(version, Unset):
            raise ValueError(f"version must match const 1, got '{version}'")

        def _parse_rate(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        rate = _parse_rate(d.pop("rate", UNSET))

        def _parse_most_rate(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        most_rate = _parse_most_rate(d.pop("most_rate", UNSET))

        def _parse_speed(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        speed = _parse_speed(d.pop("speed", UNSET))

        def _parse_most_speed(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        most_speed = _parse_most_speed(d.pop("most_speed", UNSET))

        def _parse_saturation(data: object) -> None | Saturation | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                saturation_type_0 = Saturation.from_dict(data)

                return saturation_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Saturation | Unset, data)

        saturation = _parse_saturation(d.pop("saturation", UNSET))

        unfinished = d.pop("unfinished", UNSET)

        limit_result = cls(
            users=users,
            most=most,
            confidence=confidence,
            confidence_each=confidence_each,
            loads=loads,
            version=version,
            rate=rate,
            most_rate=most_rate,
            speed=speed,
            most_speed=most_speed,
            saturation=saturation,
            unfinished=unfinished,
        )

        return limit_result
