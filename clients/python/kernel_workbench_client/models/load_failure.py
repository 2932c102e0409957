from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="LoadFailure")


@_attrs_define
class LoadFailure:
    """How many requests failed in one way, and the sentence about the first of them.

    Attributes:
        kind (str):
        count (int):
        sentence (str):
    """

    kind: str
    count: int
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        kind = self.kind

        count = self.count

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "kind": kind,
                "count": count,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        kind = d.pop("kind")

        count = d.pop("count")

        sentence = d.pop("sentence")

        load_failure = cls(
            kind=kind,
            count=count,
            sentence=sentence,
        )

        return load_failure
