from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.event_item_data_type_0 import EventItemDataType0


T = TypeVar("T", bound="EventItem")


@_attrs_define
class EventItem:
    """One line of a run's log.

    Attributes:
        id (int):
        at (datetime.datetime):
        stage (str):
        attempt (int):
        kind (str):
        message (str):
        data (EventItemDataType0 | None):
    """

    id: int
    at: datetime.datetime
    stage: str
    attempt: int
    kind: str
    message: str
    data: EventItemDataType0 | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.event_item_data_type_0 import EventItemDataType0  # noqa: PLC0415

        id = self.id

        at = self.at.isoformat()

        stage = self.stage

        attempt = self.attempt

        kind = self.kind

        message = self.message

        data: dict[str, Any] | None
        if isinstance(self.data, EventItemDataType0):
            data = self.data.to_dict()
        else:
            data = self.data

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "at": at,
                "stage": stage,
                "attempt": attempt,
                "kind": kind,
                "message": message,
                "data": data,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.event_item_data_type_0 import EventItemDataType0  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        at = datetime.datetime.fromisoformat(d.pop("at"))

        stage = d.pop("stage")

        attempt = d.pop("attempt")

        kind = d.pop("kind")

        message = d.pop("message")

        def _parse_data(data: object) -> EventItemDataType0 | None:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                data_type_0 = EventItemDataType0.from_dict(data)

                return data_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(EventItemDataType0 | None, data)

        data = _parse_data(d.pop("data"))

        event_item = cls(
            id=id,
            at=at,
            stage=stage,
            attempt=attempt,
            kind=kind,
            message=message,
            data=data,
        )

        event_item.additional_properties = d
        return event_item

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
