from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.upload_file_out import UploadFileOut


T = TypeVar("T", bound="UploadOut")


@_attrs_define
class UploadOut:
    """An upload; a PATCH may carry up to `chunk_bytes`.

    Attributes:
        id (UUID):
        name (str):
        chunk_bytes (int):
        files (list[UploadFileOut]):
        created_at (datetime.datetime):
    """

    id: UUID
    name: str
    chunk_bytes: int
    files: list[UploadFileOut]
    created_at: datetime.datetime
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = str(self.id)

        name = self.name

        chunk_bytes = self.chunk_bytes

        files = []
        for files_item_data in self.files:
            files_item = files_item_data.to_dict()
            files.append(files_item)

        created_at = self.created_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "chunk_bytes": chunk_bytes,
                "files": files,
                "created_at": created_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.upload_file_out import UploadFileOut  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        name = d.pop("name")

        chunk_bytes = d.pop("chunk_bytes")

        files = []
        _files = d.pop("files")
        for files_item_data in _files:
            files_item = UploadFileOut.from_dict(files_item_data)

            files.append(files_item)

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        upload_out = cls(
            id=id,
            name=name,
            chunk_bytes=chunk_bytes,
            files=files,
            created_at=created_at,
        )

        upload_out.additional_properties = d
        return upload_out

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
