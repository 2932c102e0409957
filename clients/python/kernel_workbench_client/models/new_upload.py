from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.new_upload_holds import NewUploadHolds, check_new_upload_holds
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.new_file import NewFile


T = TypeVar("T", bound="NewUpload")


@_attrs_define
class NewUpload:
    """A new upload: the model's name and its files, or a recording of traffic, which is one file.

    Attributes:
        name (str):
        files (list[NewFile]):
        holds (NewUploadHolds | Unset): what it becomes when it is finished Default: 'model'.
    """

    name: str
    files: list[NewFile]
    holds: NewUploadHolds | Unset = "model"

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        files = []
        for files_item_data in self.files:
            files_item = files_item_data.to_dict()
            files.append(files_item)

        holds: str | Unset = UNSET
        if not isinstance(self.holds, Unset):
            holds = self.holds

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "name": name,
                "files": files,
            }
        )
        if holds is not UNSET:
            field_dict["holds"] = holds

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.new_file import NewFile  # noqa: PLC0415

        d = dict(src_dict)
        name = d.pop("name")

        files = []
        _files = d.pop("files")
        for files_item_data in _files:
            files_item = NewFile.from_dict(files_item_data)

            files.append(files_item)

        _holds = d.pop("holds", UNSET)
        holds: NewUploadHolds | Unset
        if isinstance(_holds, Unset):
            holds = UNSET
        else:
            holds = check_new_upload_holds(_holds)

        new_upload = cls(
            name=name,
            files=files,
            holds=holds,
        )

        return new_upload
