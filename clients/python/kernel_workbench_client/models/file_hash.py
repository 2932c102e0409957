from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="FileHash")


@_attrs_define
class FileHash:
    """The SHA-256 that a file's content must have.

    Attributes:
        path (str):
        sha256 (str):
    """

    path: str
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        path = self.path

        sha256 = self.sha256

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "path": path,
                "sha256": sha256,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        path = d.pop("path")

        sha256 = d.pop("sha256")

        file_hash = cls(
            path=path,
            sha256=sha256,
        )

        return file_hash
