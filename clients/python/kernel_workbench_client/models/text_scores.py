from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.interval import Interval


T = TypeVar("T", bound="TextScores")


@_attrs_define
class TextScores:
    """Predicting the next token on somebody's text. Intervals are of 95 % and resample whole sequences.

    `source` names the text, `length` is a sequence's in tokens. Accuracy is the share of the `predictions` that are
    right; perplexity is e to the mean surprise in nats. `perplexity_ratio` is after's over before's.

        Attributes:
            source (str):
            sequences (int):
            length (int):
            predictions (int):
            accuracy_before (Interval): A central value with its 95 % interval.
            accuracy_after (Interval): A central value with its 95 % interval.
            accuracy_change (Interval): A central value with its 95 % interval.
            perplexity_before (Interval): A central value with its 95 % interval.
            perplexity_after (Interval): A central value with its 95 % interval.
            perplexity_ratio (Interval): A central value with its 95 % interval.
    """

    source: str
    sequences: int
    length: int
    predictions: int
    accuracy_before: Interval
    accuracy_after: Interval
    accuracy_change: Interval
    perplexity_before: Interval
    perplexity_after: Interval
    perplexity_ratio: Interval

    def to_dict(self) -> dict[str, Any]:
        source = self.source

        sequences = self.sequences

        length = self.length

        predictions = self.predictions

        accuracy_before = self.accuracy_before.to_dict()

        accuracy_after = self.accuracy_after.to_dict()

        accuracy_change = self.accuracy_change.to_dict()

        perplexity_before = self.perplexity_before.to_dict()

        perplexity_after = self.perplexity_after.to_dict()

        perplexity_ratio = self.perplexity_ratio.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "source": source,
                "sequences": sequences,
                "length": length,
                "predictions": predictions,
                "accuracy_before": accuracy_before,
                "accuracy_after": accuracy_after,
                "accuracy_change": accuracy_change,
                "perplexity_before": perplexity_before,
                "perplexity_after": perplexity_after,
                "perplexity_ratio": perplexity_ratio,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415

        d = dict(src_dict)
        source = d.pop("source")

        sequences = d.pop("sequences")

        length = d.pop("length")

        predictions = d.pop("predictions")

        accuracy_before = Interval.from_dict(d.pop("accuracy_before"))

        accuracy_after = Interval.from_dict(d.pop("accuracy_after"))

        accuracy_change = Interval.from_dict(d.pop("accuracy_change"))

        perplexity_before = Interval.from_dict(d.pop("perplexity_before"))

        perplexity_after = Interval.from_dict(d.pop("perplexity_after"))

        perplexity_ratio = Interval.from_dict(d.pop("perplexity_ratio"))

        text_scores = cls(
            source=source,
            sequences=sequences,
            length=length,
            predictions=predictions,
            accuracy_before=accuracy_before,
            accuracy_after=accuracy_after,
            accuracy_change=accuracy_change,
            perplexity_before=perplexity_before,
            perplexity_after=perplexity_after,
            perplexity_ratio=perplexity_ratio,
        )

        return text_scores
