from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.try_out import TryOut


T = TypeVar("T", bound="DeliveryOut")


@_attrs_define
class DeliveryOut:
    """A message on its way to one place. `next_at` is None once it is over.

    Attributes:
        id (UUID):
        message_id (str):
        kind (str):
        to (str):
        state (str):
        tries (list[TryOut]):
        next_at (datetime.datetime | None):
        created_at (datetime.datetime):
    """

    id: UUID
    message_id: str
    kind: str
    to: str
    state: str
    tries: list[TryOut]
    next_at: datetime.datetime | None
    created_at: datetime.datetime
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = str(self.id)

        message_id = self.message_id

        kind = self.kind

        to = self.to

        state = self.state

        tries = []
        for tries_item_data in self.tries:
            tries_item = tries_item_data.to_dict()
            tries.append(tries_item)

        next_at: None | str
        if isinstance(self.next_at, datetime.datetime):
            next_at = self.next_at.isoformat()
        else:
            next_at = self.next_at

        created_at = self.created_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "message_id": message_id,
                "kind": kind,
                "to": to,
                "state": state,
                "tries": tries,
                "next_at": next_at,
                "created_at": created_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.try_out import TryOut  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        message_id = d.pop("message_id")

        kind = d.pop("kind")

        to = d.pop("to")

        state = d.pop("state")

        tries = []
        _tries = d.pop("tries")
        for tries_item_data in _tries:
            tries_item = TryOut.from_dict(tries_item_data)

            tries.append(tries_item)

        def _parse_next_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                next_at_type_0 = datetime.datetime.fromisoformat(data)

                return next_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        next_at = _parse_next_at(d.pop("next_at"))

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        delivery_out = cls(
            id=id,
            message_id=message_id,
            kind=kind,
            to=to,
            state=state,
            tries=tries,
            next_at=next_at,
            created_at=created_at,
        )

        delivery_out.additional_properties = d
        return delivery_out

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
