from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.artifact import Artifact
    from ..models.bottleneck import Bottleneck
    from ..models.ceilings import Ceilings
    from ..models.environment import Environment
    from ..models.op_row import OpRow
    from ..models.profile_result_cases_item import ProfileResultCasesItem
    from ..models.request_timeline import RequestTimeline


T = TypeVar("T", bound="ProfileResult")


@_attrs_define
class ProfileResult:
    """
    Attributes:
        environment (Environment): The device, the libraries and the commit that a figure was measured with; `at` is ISO
            8601 UTC.
        ceilings (Ceilings): Measured limits of the device under settled clocks, and the time of an empty launch in
            microseconds.

            `burst`: those of single calls after pauses, where clocks are at their highest; None on a CPU and in documents
            that
            know one regime.
        request_ms (float):
        device_ms (float):
        attributed_share (float):
        launches (int):
        rows (list[OpRow]):
        bottlenecks (list[Bottleneck]):
        doubt (str | Unset): why the device's time is not said, in a sentence Default: ''.
        cases (list[ProfileResultCasesItem] | Unset): the ops' cases with per_request, for explore
        replayed (list[OpRow] | Unset): the same request under CUDA graphs, where it was profiled
        replayed_share (float | None | Unset): attributed share of `replayed`
        notes (list[str] | Unset):
        trace (Artifact | None | Unset):
        timeline (None | RequestTimeline | Unset):
    """

    environment: Environment
    ceilings: Ceilings
    request_ms: float
    device_ms: float
    attributed_share: float
    launches: int
    rows: list[OpRow]
    bottlenecks: list[Bottleneck]
    doubt: str | Unset = ""
    cases: list[ProfileResultCasesItem] | Unset = UNSET
    replayed: list[OpRow] | Unset = UNSET
    replayed_share: float | None | Unset = UNSET
    notes: list[str] | Unset = UNSET
    trace: Artifact | None | Unset = UNSET
    timeline: None | RequestTimeline | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.request_timeline import RequestTimeline  # noqa: PLC0415

        environment = self.environment.to_dict()

        ceilings = self.ceilings.to_dict()

        request_ms = self.request_ms

        device_ms = self.device_ms

        attributed_share = self.attributed_share

        launches = self.launches

        rows = []
        for rows_item_data in self.rows:
            rows_item = rows_item_data.to_dict()
            rows.append(rows_item)

        bottlenecks = []
        for bottlenecks_item_data in self.bottlenecks:
            bottlenecks_item = bottlenecks_item_data.to_dict()
            bottlenecks.append(bottlenecks_item)

        doubt = self.doubt

        cases: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.cases, Unset):
            cases = []
            for cases_item_data in self.cases:
                cases_item = cases_item_data.to_dict()
                cases.append(cases_item)

        replayed: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.replayed, Unset):
            replayed = []
            for replayed_item_data in self.replayed:
                replayed_item = replayed_item_data.to_dict()
                replayed.append(replayed_item)

        replayed_share: float | None | Unset
        if isinstance(self.replayed_share, Unset):
            replayed_share = UNSET
        else:
            replayed_share = self.replayed_share

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        trace: dict[str, Any] | None | Unset
        if isinstance(self.trace, Unset):
            trace = UNSET
        elif isinstance(self.trace, Artifact):
            trace = self.trace.to_dict()
        else:
            trace = self.trace

        timeline: dict[str, Any] | None | Unset
        if isinstance(self.timeline, Unset):
            timeline = UNSET
        elif isinstance(self.timeline, RequestTimeline):
            timeline = self.timeline.to_dict()
        else:
            timeline = self.timeline

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "ceilings": ceilings,
                "request_ms": request_ms,
                "device_ms": device_ms,
                "attributed_share": attributed_share,
                "launches": launches,
                "rows": rows,
                "bottlenecks": bottlenecks,
            }
        )
        if doubt is not UNSET:
            field_dict["doubt"] = doubt
        if cases is not UNSET:
            field_dict["cases"] = cases
        if replayed is not UNSET:
            field_dict["replayed"] = replayed
        if replayed_share is not UNSET:
            field_dict["replayed_share"] = replayed_share
        if notes is not UNSET:
            field_dict["notes"] = notes
        if trace is not UNSET:
            field_dict["trace"] = trace
        if timeline is not UNSET:
            field_dict["timeline"] = timeline

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.bottleneck import Bottleneck  # noqa: PLC0415
        from ..models.ceilings import Ceilings  # noqa: PLC0415
        from ..models.environment import Environment  # noqa: PLC0415
        from ..models.op_row import OpRow  # noqa: PLC0415
        from ..models.profile_result_cases_item import ProfileResultCasesItem  # noqa: PLC0415
        from ..models.request_timeline import RequestTimeline  # noqa: PLC0415

        d = dict(src_dict)
        environment = Environment.from_dict(d.pop("environment"))

        ceilings = Ceilings.from_dict(d.pop("ceilings"))

        request_ms = d.pop("request_ms")

        device_ms = d.pop("device_ms")

        attributed_share = d.pop("attributed_share")

        launches = d.pop("launches")

        rows = []
        _rows = d.pop("rows")
        for rows_item_data in _rows:
            rows_item = OpRow.from_dict(rows_item_data)

            rows.append(rows_item)

        bottlenecks = []
        _bottlenecks = d.pop("bottlenecks")
        for bottlenecks_item_data in _bottlenecks:
            bottlenecks_item = Bottleneck.from_dict(bottlenecks_item_data)

            bottlenecks.append(bottlenecks_item)

        doubt = d.pop("doubt", UNSET)

        _cases = d.pop("cases", UNSET)
        cases: list[ProfileResultCasesItem] | Unset = UNSET
        if _cases is not UNSET:
            cases = []
            for cases_item_data in _cases:
                cases_item = ProfileResultCasesItem.from_dict(cases_item_data)

                cases.append(cases_item)

        _replayed = d.pop("replayed", UNSET)
        replayed: list[OpRow] | Unset = UNSET
        if _replayed is not UNSET:
            replayed = []
            for replayed_item_data in _replayed:
                replayed_item = OpRow.from_dict(replayed_item_data)

                replayed.append(replayed_item)

        def _parse_replayed_share(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        replayed_share = _parse_replayed_share(d.pop("replayed_share", UNSET))

        notes = cast(list[str], d.pop("notes", UNSET))

        def _parse_trace(data: object) -> Artifact | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                trace_type_0 = Artifact.from_dict(data)

                return trace_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Artifact | None | Unset, data)

        trace = _parse_trace(d.pop("trace", UNSET))

        def _parse_timeline(data: object) -> None | RequestTimeline | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                timeline_type_0 = RequestTimeline.from_dict(data)

                return timeline_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RequestTimeline | Unset, data)

        timeline = _parse_timeline(d.pop("timeline", UNSET))

        profile_result = cls(
            environment=environment,
            ceilings=ceilings,
            request_ms=request_ms,
            device_ms=device_ms,
            attributed_share=attributed_share,
            launches=launches,
            rows=rows,
            bottlenecks=bottlenecks,
            doubt=doubt,
            cases=cases,
            replayed=replayed,
            replayed_share=replayed_share,
            notes=notes,
            trace=trace,
            timeline=timeline,
        )

        return profile_result
