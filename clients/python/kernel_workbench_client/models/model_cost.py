from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.gap import Gap


T = TypeVar("T", bound="ModelCost")


@_attrs_define
class ModelCost:
    """One request of a catalogue model: the sum of its ops' best times, and of their floors, in ms.

    Attributes:
        model (str):
        prompt (int):
        tokens (int):
        ms (float):
        floor_ms (float):
        gaps (list[Gap]):
    """

    model: str
    prompt: int
    tokens: int
    ms: float
    floor_ms: float
    gaps: list[Gap]

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        prompt = self.prompt

        tokens = self.tokens

        ms = self.ms

        floor_ms = self.floor_ms

        gaps = []
        for gaps_item_data in self.gaps:
            gaps_item = gaps_item_data.to_dict()
            gaps.append(gaps_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "model": model,
                "prompt": prompt,
                "tokens": tokens,
                "ms": ms,
                "floor_ms": floor_ms,
                "gaps": gaps,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.gap import Gap  # noqa: PLC0415

        d = dict(src_dict)
        model = d.pop("model")

        prompt = d.pop("prompt")

        tokens = d.pop("tokens")

        ms = d.pop("ms")

        floor_ms = d.pop("floor_ms")

        gaps = []
        _gaps = d.pop("gaps")
        for gaps_item_data in _gaps:
            gaps_item = Gap.from_dict(gaps_item_data)

            gaps.append(gaps_item)

        model_cost = cls(
            model=model,
            prompt=prompt,
            tokens=tokens,
            ms=ms,
            floor_ms=floor_ms,
            gaps=gaps,
        )

        return model_cost
