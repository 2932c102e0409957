from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ServedIds")


@_attrs_define
class ServedIds:
    """Ids of timed requests, teacher-forced through the model as it is served today.

    A logit gap is how far the logit of an id lies below the largest one, in standard deviations of its position. Of a
    plan of lower precision there are the gaps by its own logits as well, which are judged by narrower limits.

        Attributes:
            tokens (int):
            mean_gap (float):
            largest_gap (float):
            acceptable (bool):
            sentence (str):
            own_mean_gap (float | None | Unset):
            own_largest_gap (float | None | Unset):
    """

    tokens: int
    mean_gap: float
    largest_gap: float
    acceptable: bool
    sentence: str
    own_mean_gap: float | None | Unset = UNSET
    own_largest_gap: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        tokens = self.tokens

        mean_gap = self.mean_gap

        largest_gap = self.largest_gap

        acceptable = self.acceptable

        sentence = self.sentence

        own_mean_gap: float | None | Unset
        if isinstance(self.own_mean_gap, Unset):
            own_mean_gap = UNSET
        else:
            own_mean_gap = self.own_mean_gap

        own_largest_gap: float | None | Unset
        if isinstance(self.own_largest_gap, Unset):
            own_largest_gap = UNSET
        else:
            own_largest_gap = self.own_largest_gap

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
        if own_mean_gap is not UNSET:
            field_dict["own_mean_gap"] = own_mean_gap
        if own_largest_gap is not UNSET:
            field_dict["own_largest_gap"] = own_largest_gap

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        tokens = d.pop("tokens")

        mean_gap = d.pop("mean_gap")

        largest_gap = d.pop("largest_gap")

        acceptable = d.pop("acceptable")

        sentence = d.pop("sentence")

        def _parse_own_mean_gap(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        own_mean_gap = _parse_own_mean_gap(d.pop("own_mean_gap", UNSET))

        def _parse_own_largest_gap(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        own_largest_gap = _parse_own_largest_gap(d.pop("own_largest_gap", UNSET))

        served_ids = cls(
            tokens=tokens,
            mean_gap=mean_gap,
            largest_gap=largest_gap,
            acceptable=acceptable,
            sentence=sentence,
            own_mean_gap=own_mean_gap,
            own_largest_gap=own_largest_gap,
        )

        return served_ids
