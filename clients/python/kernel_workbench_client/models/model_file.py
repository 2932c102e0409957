from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ModelFile")


@_attrs_define
class ModelFile:
    """One file of a model directory; `path` is relative, with `/`.

    Attributes:
        path (str):
        sha256 (str):
        size (int):
    """

    path: str
    sha256: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        path = self.path

        sha256 = self.sha256

        size = self.size

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "path": path,
                "sha256": sha256,
                "size": size,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        path = d.pop("path")

        sha256 = d.pop("sha256")

        size = d.pop("size")

        model_file = cls(
            path=path,
            sha256=sha256,
            size=size,
        )

        return model_file
