from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.webhook_in_kinds_item import (
    WebhookInKindsItem,
    check_webhook_in_kinds_item,
)
from ..types import UNSET, Unset

T = TypeVar("T", bound="WebhookIn")


@_attrs_define
class WebhookIn:
    """A webhook to add.

    Attributes:
        url (str): an https address of the public internet
        kinds (list[WebhookInKindsItem] | Unset):
    """

    url: str
    kinds: list[WebhookInKindsItem] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        url = self.url

        kinds: list[str] | Unset = UNSET
        if not isinstance(self.kinds, Unset):
            kinds = []
            for kinds_item_data in self.kinds:
                kinds_item: str = kinds_item_data
                kinds.append(kinds_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "url": url,
            }
        )
        if kinds is not UNSET:
            field_dict["kinds"] = kinds

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        url = d.pop("url")

        _kinds = d.pop("kinds", UNSET)
        kinds: list[WebhookInKindsItem] | Unset = UNSET
        if _kinds is not UNSET:
            kinds = []
            for kinds_item_data in _kinds:
                kinds_item = check_webhook_in_kinds_item(kinds_item_data)

                kinds.append(kinds_item)

        webhook_in = cls(
            url=url,
            kinds=kinds,
        )

        return webhook_in
