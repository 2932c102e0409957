from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.quality_called import QualityCalled, check_quality_called
from ..models.quality_compared import QualityCompared, check_quality_compared
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval
    from ..models.measure import Measure
    from ..models.text_scores import TextScores


T = TypeVar("T", bound="Quality")


@_attrs_define
class Quality:
    """Against the float32 model: mean KL divergence (nats) and top-1 disagreement rate; vectors have neither.

    `called` is "numerical fidelity" on generated weights. `tokens` counts what was `compared`, of the `needed` that
    proof takes. `change` is the paired interval of after minus before, of the top-1 disagreement rate or, for vectors,
    of the pooled vector's cosine distance; `kl_change` is that of the mean KL divergence. `measures` are those of
    classes and vectors. `source` says where the inputs come from. `text` are the scores of a model that generates,
    where the workload or the model has a text.

        Attributes:
            called (QualityCalled):
            tokens (int):
            change (Interval): A central value with its 95 % interval.
            acceptable (bool):
            sentence (str):
            needed (int | Unset):  Default: 4096.
            compared (QualityCompared | Unset):  Default: 'tokens'.
            kl_before (float | None | Unset):
            kl_after (float | None | Unset):
            top1_before (float | None | Unset):
            top1_after (float | None | Unset):
            measures (list[Measure] | Unset):
            kl_change (Interval | None | Unset):
            source (str | Unset):  Default: ''.
            text (None | TextScores | Unset):
            perplexity_before (float | None | Unset):
            perplexity_after (float | None | Unset):
    """

    called: QualityCalled
    tokens: int
    change: Interval
    acceptable: bool
    sentence: str
    needed: int | Unset = 4096
    compared: QualityCompared | Unset = "tokens"
    kl_before: float | None | Unset = UNSET
    kl_after: float | None | Unset = UNSET
    top1_before: float | None | Unset = UNSET
    top1_after: float | None | Unset = UNSET
    measures: list[Measure] | Unset = UNSET
    kl_change: Interval | None | Unset = UNSET
    source: str | Unset = ""
    text: None | TextScores | Unset = UNSET
    perplexity_before: float | None | Unset = UNSET
    perplexity_after: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.text_scores import TextScores  # noqa: PLC0415

        called: str = self.called

        tokens = self.tokens

        change = self.change.to_dict()

        acceptable = self.acceptable

        sentence = self.sentence

        needed = self.needed

        compared: str | Unset = UNSET
        if not isinstance(self.compared, Unset):
            compared = self.compared

        kl_before: float | None | Unset
        if isinstance(self.kl_before, Unset):
            kl_before = UNSET
        else:
            kl_before = self.kl_before

        kl_after: float | None | Unset
        if isinstance(self.kl_after, Unset):
            kl_after = UNSET
        else:
            kl_after = self.kl_after

        top1_before: float | None | Unset
        if isinstance(self.top1_before, Unset):
            top1_before = UNSET
        else:
            top1_before = self.top1_before

        top1_after: float | None | Unset
        if isinstance(self.top1_after, Unset):
            top1_after = UNSET
        else:
            top1_after = self.top1_after

        measures: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.measures, Unset):
            measures = []
            for measures_item_data in self.measures:
                measures_item = measures_item_data.to_dict()
                measures.append(measures_item)

        kl_change: dict[str, Any] | None | Unset
        if isinstance(self.kl_change, Unset):
            kl_change = UNSET
        elif isinstance(self.kl_change, Interval):
            kl_change = self.kl_change.to_dict()
        else:
            kl_change = self.kl_change

        source = self.source

        text: dict[str, Any] | None | Unset
        if isinstance(self.text, Unset):
            text = UNSET
        elif isinstance(self.text, TextScores):
            text = self.text.to_dict()
        else:
            text = self.text

        perplexity_before: float | None | Unset
        if isinstance(self.perplexity_before, Unset):
            perplexity_before = UNSET
        else:
            perplexity_before = self.perplexity_before

        perplexity_after: float | None | Unset
        if isinstance(self.perplexity_after, Unset):
            perplexity_after = UNSET
        else:
            perplexity_after = self.perplexity_after

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "called": called,
                "tokens": tokens,
                "change": change,
                "acceptable": acceptable,
                "sentence": sentence,
            }
        )
        if needed is not UNSET:
            field_dict["needed"] = needed
        if compared is not UNSET:
            field_dict["compared"] = compared
        if kl_before is not UNSET:
            field_dict["kl_before"] = kl_before
        if kl_after is not UNSET:
            field_dict["kl_after"] = kl_after
        if top1_before is not UNSET:
            field_dict["top1_before"] = top1_before
        if top1_after is not UNSET:
            field_dict["top1_after"] = top1_after
        if measures is not UNSET:
            field_dict["measures"] = measures
        if kl_change is not UNSET:
            field_dict["kl_change"] = kl_change
        if source is not UNSET:
            field_dict["source"] = source
        if text is not UNSET:
            field_dict["text"] = text
        if perplexity_before is not UNSET:
            field_dict["perplexity_before"] = perplexity_before
        if perplexity_after is not UNSET:
            field_dict["perplexity_after"] = perplexity_after

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.measure import Measure  # noqa: PLC0415
        from ..models.text_scores import TextScores  # noqa: PLC0415

        d = dict(src_dict)
        called = check_quality_called(d.pop("called"))

        tokens = d.pop("tokens")

        change = Interval.from_dict(d.pop("change"))

        acceptable = d.pop("acceptable")

        sentence = d.pop("sentence")

        needed = d.pop("needed", UNSET)

        _compared = d.pop("compared", UNSET)
        compared: QualityCompared | Unset
        if isinstance(_compared, Unset):
            compared = UNSET
        else:
            compared = check_quality_compared(_compared)

        def _parse_kl_before(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        kl_before = _parse_kl_before(d.pop("kl_before", UNSET))

        def _parse_kl_after(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        kl_after = _parse_kl_after(d.pop("kl_after", UNSET))

        def _parse_top1_before(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        top1_before = _parse_top1_before(d.pop("top1_before", UNSET))

        def _parse_top1_after(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        top1_after = _parse_top1_after(d.pop("top1_after", UNSET))

        _measures = d.pop("measures", UNSET)
        measures: list[Measure] | Unset = UNSET
        if _measures is not UNSET:
            measures = []
            for measures_item_data in _measures:
                measures_item = Measure.from_dict(measures_item_data)

                measures.append(measures_item)

        def _parse_kl_change(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                kl_change_type_0 = Interval.from_dict(data)

                return kl_change_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        kl_change = _parse_kl_change(d.pop("kl_change", UNSET))

        source = d.pop("source", UNSET)

        def _parse_text(data: object) -> None | TextScores | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                text_type_0 = TextScores.from_dict(data)

                return text_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | TextScores | Unset, data)

        text = _parse_text(d.pop("text", UNSET))

        def _parse_perplexity_before(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        perplexity_before = _parse_perplexity_before(d.pop("perplexity_before", UNSET))

        def _parse_perplexity_after(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        perplexity_after = _parse_perplexity_after(d.pop("perplexity_after", UNSET))

        quality = cls(
            called=called,
            tokens=tokens,
            change=change,
            acceptable=acceptable,
            sentence=sentence,
            needed=needed,
            compared=compared,
            kl_before=kl_before,
            kl_after=kl_after,
            top1_before=top1_before,
            top1_after=top1_after,
            measures=measures,
            kl_change=kl_change,
            source=source,
            text=text,
            perplexity_before=perplexity_before,
            perplexity_after=perplexity_after,
        )

        return quality
