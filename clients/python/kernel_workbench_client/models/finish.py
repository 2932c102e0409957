from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.file_hash import FileHash


T = TypeVar("T", bound="Finish")


@_attrs_define
class Finish:
    """The SHA-256 of every file that did not announce it.

    Attributes:
        files (list[FileHash] | Unset):
    """

    files: list[FileHash] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        files: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.files, Unset):
            files = []
            for files_item_data in self.files:
                files_item = files_item_data.to_dict()
                files.append(files_item)

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if files is not UNSET:
            field_dict["files"] = files

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.file_hash import FileHash  # noqa: PLC0415

        d = dict(src_dict)
        _files = d.pop("files", UNSET)
        files: list[FileHash] | Unset = UNSET
        if _files is not UNSET:
            files = []
            for files_item_data in _files:
                files_item = FileHash.from_dict(files_item_data)

                files.append(files_item)

        finish = cls(
            files=files,
        )

        return finish
