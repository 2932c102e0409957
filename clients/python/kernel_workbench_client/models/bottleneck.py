from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Bottleneck")


@_attrs_define
class Bottleneck:
    """One plain sentence: what it is, how much it costs, what would help.

    Attributes:
        rank (int):
        op (str):
        ms (float):
        share (float):
        bound (str):
        sentence (str):
    """

    rank: int
    op: str
    ms: float
    share: float
    bound: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        rank = self.rank

        op = self.op

        ms = self.ms

        share = self.share

        bound = self.bound

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "rank": rank,
                "op": op,
                "ms": ms,
                "share": share,
                "bound": bound,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        rank = d.pop("rank")

        op = d.pop("op")

        ms = d.pop("ms")

        share = d.pop("share")

        bound = d.pop("bound")

        sentence = d.pop("sentence")

        bottleneck = cls(
            rank=rank,
            op=op,
            ms=ms,
            share=share,
            bound=bound,
            sentence=sentence,
        )

        return bottleneck
