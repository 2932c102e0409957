from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="StageFailure")


@_attrs_define
class StageFailure:
    """Why a stage gave up, as one sentence; `refused` when the customer's input is the cause.

    Attributes:
        sentence (str):
        refused (bool | Unset):  Default: False.
        file (str | Unset):  Default: ''.
        field (str | Unset):  Default: ''.
    """

    sentence: str
    refused: bool | Unset = False
    file: str | Unset = ""
    field: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        sentence = self.sentence

        refused = self.refused

        file = self.file

        field = self.field

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "sentence": sentence,
            }
        )
        if refused is not UNSET:
            field_dict["refused"] = refused
        if file is not UNSET:
            field_dict["file"] = file
        if field is not UNSET:
            field_dict["field"] = field

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        sentence = d.pop("sentence")

        refused = d.pop("refused", UNSET)

        file = d.pop("file", UNSET)

        field = d.pop("field", UNSET)

        stage_failure = cls(
            sentence=sentence,
            refused=refused,
            file=file,
            field=field,
        )

        return stage_failure
