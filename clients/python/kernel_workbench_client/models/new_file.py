from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="NewFile")


@_attrs_define
class NewFile:
    """A file of a new upload, with its path in the model's folder.

    Attributes:
        path (str):
        size (int):
        sha256 (str | Unset): may be sent at the end instead Default: ''.
    """

    path: str
    size: int
    sha256: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        path = self.path

        size = self.size

        sha256 = self.sha256

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "path": path,
                "size": size,
            }
        )
        if sha256 is not UNSET:
            field_dict["sha256"] = sha256

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        path = d.pop("path")

        size = d.pop("size")

        sha256 = d.pop("sha256", UNSET)

        new_file = cls(
            path=path,
            size=size,
            sha256=sha256,
        )

        return new_file
