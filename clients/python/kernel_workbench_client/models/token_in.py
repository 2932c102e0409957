from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.scope import Scope, check_scope
from ..types import UNSET, Unset

T = TypeVar("T", bound="TokenIn")


@_attrs_define
class TokenIn:
    """A token to make.

    Attributes:
        name (str):
        scope (Scope | Unset):  Default: 'read'.
        days (int | None | Unset): how long it lives; null: until it is revoked Default: 90.
    """

    name: str
    scope: Scope | Unset = "read"
    days: int | None | Unset = 90

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        scope: str | Unset = UNSET
        if not isinstance(self.scope, Unset):
            scope = self.scope

        days: int | None | Unset
        if isinstance(self.days, Unset):
            days = UNSET
        else:
            days = self.days

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
            }
        )
        if scope is not UNSET:
            field_dict["scope"] = scope
        if days is not UNSET:
            field_dict["days"] = days

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        _scope = d.pop("scope", UNSET)
        scope: Scope | Unset
        if isinstance(_scope, Unset):
            scope = UNSET
        else:
            scope = check_scope(_scope)

        def _parse_days(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        days = _parse_days(d.pop("days", UNSET))

        token_in = cls(
            name=name,
            scope=scope,
            days=days,
        )

        return token_in
