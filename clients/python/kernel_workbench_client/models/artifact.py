from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Artifact")


@_attrs_define
class Artifact:
    """A file kept by content hash; `name` is for people, `sha256` finds it.

    Attributes:
        name (str):
        sha256 (str):
        size (int):
        media_type (str | Unset):  Default: 'application/octet-stream'.
    """

    name: str
    sha256: str
    size: int
    media_type: str | Unset = "application/octet-stream"

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        sha256 = self.sha256

        size = self.size

        media_type = self.media_type

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "sha256": sha256,
                "size": size,
            }
        )
        if media_type is not UNSET:
            field_dict["media_type"] = media_type

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        sha256 = d.pop("sha256")

        size = d.pop("size")

        media_type = d.pop("media_type", UNSET)

        artifact = cls(
            name=name,
            sha256=sha256,
            size=size,
            media_type=media_type,
        )

        return artifact
