from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.report_result_verdict import (
    ReportResultVerdict,
    check_report_result_verdict,
)

if TYPE_CHECKING:
    from ..models.artifact import Artifact


T = TypeVar("T", bound="ReportResult")


@_attrs_define
class ReportResult:
    """
    Attributes:
        html (Artifact): A file kept by content hash; `name` is for people, `sha256` finds it.
        plan (Artifact): A file kept by content hash; `name` is for people, `sha256` finds it.
        verdict (ReportResultVerdict):
        headline (str):
    """

    html: Artifact
    plan: Artifact
    verdict: ReportResultVerdict
    headline: str

    def to_dict(self) -> dict[str, Any]:
        html = self.html.to_dict()

        plan = self.plan.to_dict()

        verdict: str = self.verdict

        headline = self.headline

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "html": html,
                "plan": plan,
                "verdict": verdict,
                "headline": headline,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact import Artifact  # noqa: PLC0415

        d = dict(src_dict)
        html = Artifact.from_dict(d.pop("html"))

        plan = Artifact.from_dict(d.pop("plan"))

        verdict = check_report_result_verdict(d.pop("verdict"))

        headline = d.pop("headline")

        report_result = cls(
            html=html,
            plan=plan,
            verdict=verdict,
            headline=headline,
        )

        return report_result
