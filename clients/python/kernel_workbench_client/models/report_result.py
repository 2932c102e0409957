from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.report_result_verdict import (
    ReportResultVerdict,
    check_report_result_verdict,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.artifact import Artifact
    from ..models.compared_figure import ComparedFigure


T = TypeVar("T", bound="ReportResult")


@_attrs_define
class ReportResult:
    """
    Attributes:
        html (Artifact): A file kept by content hash; `name` is for people, `sha256` finds it.
        plan (Artifact): A file kept by content hash; `name` is for people, `sha256` finds it.
        verdict (ReportResultVerdict):
        headline (str):
        predicted (list[ComparedFigure] | Unset): what was predicted, beside what was measured
    """

    html: Artifact
    plan: Artifact
    verdict: ReportResultVerdict
    headline: str
    predicted: list[ComparedFigure] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        html = self.html.to_dict()

        plan = self.plan.to_dict()

        verdict: str = self.verdict

        headline = self.headline

        predicted: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.predicted, Unset):
            predicted = []
            for predicted_item_data in self.predicted:
                predicted_item = predicted_item_data.to_dict()
                predicted.append(predicted_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "html": html,
                "plan": plan,
                "verdict": verdict,
                "headline": headline,
            }
        )
        if predicted is not UNSET:
            field_dict["predicted"] = predicted

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.compared_figure import ComparedFigure  # noqa: PLC0415

        d = dict(src_dict)
        html = Artifact.from_dict(d.pop("html"))

        plan = Artifact.from_dict(d.pop("plan"))

        verdict = check_report_result_verdict(d.pop("verdict"))

        headline = d.pop("headline")

        _predicted = d.pop("predicted", UNSET)
        predicted: list[ComparedFigure] | Unset = UNSET
        if _predicted is not UNSET:
            predicted = []
            for predicted_item_data in _predicted:
                predicted_item = ComparedFigure.from_dict(predicted_item_data)

                predicted.append(predicted_item)

        report_result = cls(
            html=html,
            plan=plan,
            verdict=verdict,
            headline=headline,
            predicted=predicted,
        )

        return report_result
