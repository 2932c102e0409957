from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="ServedIds")


@_attrs_define
class ServedIds:
    """Ids of timed requests, teacher-forced through the model as it is served today.

    A logit gap is how far the logit of an id lies below the largest one, in standard deviations of its position.

        Attributes:
            tokens (int):
            mean_gap (float):
            largest_gap (float):
            acceptable (bool):
            sentence (str):
    """

    tokens: int
    mean_gap: float
    largest_gap: float
    acceptable: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        tokens = self.tokens

        mean_gap = self.mean_gap

        largest_gap = self.largest_gap

        acceptable = self.acceptable

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "tokens": tokens,
                "mean_gap": mean_gap,
                "largest_gap": largest_gap,
                "acceptable": acceptable,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        tokens = d.pop("tokens")

        mean_gap = d.pop("mean_gap")

        largest_gap = d.pop("largest_gap")

        acceptable = d.pop("acceptable")

        sentence = d.pop("sentence")

        served_ids = cls(
            tokens=tokens,
            mean_gap=mean_gap,
            largest_gap=largest_gap,
            acceptable=acceptable,
            sentence=sentence,
        )

        return served_ids
