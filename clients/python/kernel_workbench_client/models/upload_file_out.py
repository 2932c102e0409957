from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="UploadFileOut")


@_attrs_define
class UploadFileOut:
    """One file: PATCH its bytes to `/uploads/{id}/files/{number}`, the next one is number `received`.

    Attributes:
        number (int):
        path (str):
        size (int):
        received (int):
        sha256 (str | Unset): as announced, so that a client can tell which upload to resume Default: ''.
    """

    number: int
    path: str
    size: int
    received: int
    sha256: str | Unset = ""
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        number = self.number

        path = self.path

        size = self.size

        received = self.received

        sha256 = self.sha256

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "number": number,
                "path": path,
                "size": size,
                "received": received,
            }
        )
        if sha256 is not UNSET:
            field_dict["sha256"] = sha256

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        number = d.pop("number")

        path = d.pop("path")

        size = d.pop("size")

        received = d.pop("received")

        sha256 = d.pop("sha256", UNSET)

        upload_file_out = cls(
            number=number,
            path=path,
            size=size,
            received=received,
            sha256=sha256,
        )

        upload_file_out.additional_properties = d
        return upload_file_out

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
