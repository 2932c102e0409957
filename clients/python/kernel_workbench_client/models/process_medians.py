from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ProcessMedians")


@_attrs_define
class ProcessMedians:
    """The medians of the first objective's metric in one process, over `pairs` interleaved requests of each side.

    `ratio` is above 1 when after is better.

        Attributes:
            before (float):
            after (float):
            ratio (float):
            pairs (int):
    """

    before: float
    after: float
    ratio: float
    pairs: int

    def to_dict(self) -> dict[str, Any]:
        before = self.before

        after = self.after

        ratio = self.ratio

        pairs = self.pairs

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "before": before,
                "after": after,
                "ratio": ratio,
                "pairs": pairs,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        before = d.pop("before")

        after = d.pop("after")

        ratio = d.pop("ratio")

        pairs = d.pop("pairs")

        process_medians = cls(
            before=before,
            after=after,
            ratio=ratio,
            pairs=pairs,
        )

        return process_medians
