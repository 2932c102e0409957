from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.reason import Reason


T = TypeVar("T", bound="ProblemDocument")


@_attrs_define
class ProblemDocument:
    """The body of every error of the API.

    Attributes:
        title (str): the status in words
        status (int):
        detail (str): one sentence that says what is wrong
        type_ (str | Unset):  Default: 'about:blank'.
        errors (list[Reason] | Unset):
    """

    title: str
    status: int
    detail: str
    type_: str | Unset = "about:blank"
    errors: list[Reason] | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        title = self.title

        status = self.status

        detail = self.detail

        type_ = self.type_

        errors: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.errors, Unset):
            errors = []
            for errors_item_data in self.errors:
                errors_item = errors_item_data.to_dict()
                errors.append(errors_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "title": title,
                "status": status,
                "detail": detail,
            }
        )
        if type_ is not UNSET:
            field_dict["type"] = type_
        if errors is not UNSET:
            field_dict["errors"] = errors

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.reason import Reason  # noqa: PLC0415

        d = dict(src_dict)
        title = d.pop("title")

        status = d.pop("status")

        detail = d.pop("detail")

        type_ = d.pop("type", UNSET)

        _errors = d.pop("errors", UNSET)
        errors: list[Reason] | Unset = UNSET
        if _errors is not UNSET:
            errors = []
            for errors_item_data in _errors:
                errors_item = Reason.from_dict(errors_item_data)

                errors.append(errors_item)

        problem_document = cls(
            title=title,
            status=status,
            detail=detail,
            type_=type_,
            errors=errors,
        )

        problem_document.additional_properties = d
        return problem_document

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
