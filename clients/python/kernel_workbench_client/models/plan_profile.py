from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.artifact import Artifact
    from ..models.op_row import OpRow
    from ..models.request_timeline import RequestTimeline


T = TypeVar("T", bound="PlanProfile")


@_attrs_define
class PlanProfile:
    """Where a request of the verified plan spends its time, in ms; traced after all that the same process times.

    Attributes:
        request_ms (float):
        device_ms (float):
        launches (int):
        attributed_share (float):
        rows (list[OpRow]):
        sentence (str):
        floor_ms (float | None | Unset): by the measured ceilings; None in a lower precision
        trace (Artifact | None | Unset):
        timeline (None | RequestTimeline | Unset):
    """

    request_ms: float
    device_ms: float
    launches: int
    attributed_share: float
    rows: list[OpRow]
    sentence: str
    floor_ms: float | None | Unset = UNSET
    trace: Artifact | None | Unset = UNSET
    timeline: None | RequestTimeline | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.request_timeline import RequestTimeline  # noqa: PLC0415

        request_ms = self.request_ms

        device_ms = self.device_ms

        launches = self.launches

        attributed_share = self.attributed_share

        rows = []
        for rows_item_data in self.rows:
            rows_item = rows_item_data.to_dict()
            rows.append(rows_item)

        sentence = self.sentence

        floor_ms: float | None | Unset
        if isinstance(self.floor_ms, Unset):
            floor_ms = UNSET
        else:
            floor_ms = self.floor_ms

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
                "request_ms": request_ms,
                "device_ms": device_ms,
                "launches": launches,
                "attributed_share": attributed_share,
                "rows": rows,
                "sentence": sentence,
            }
        )
        if floor_ms is not UNSET:
            field_dict["floor_ms"] = floor_ms
        if trace is not UNSET:
            field_dict["trace"] = trace
        if timeline is not UNSET:
            field_dict["timeline"] = timeline

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.artifact import Artifact  # noqa: PLC0415
        from ..models.op_row import OpRow  # noqa: PLC0415
        from ..models.request_timeline import RequestTimeline  # noqa: PLC0415

        d = dict(src_dict)
        request_ms = d.pop("request_ms")

        device_ms = d.pop("device_ms")

        launches = d.pop("launches")

        attributed_share = d.pop("attributed_share")

        rows = []
        _rows = d.pop("rows")
        for rows_item_data in _rows:
            rows_item = OpRow.from_dict(rows_item_data)

            rows.append(rows_item)

        sentence = d.pop("sentence")

        def _parse_floor_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        floor_ms = _parse_floor_ms(d.pop("floor_ms", UNSET))

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

        plan_profile = cls(
            request_ms=request_ms,
            device_ms=device_ms,
            launches=launches,
            attributed_share=attributed_share,
            rows=rows,
            sentence=sentence,
            floor_ms=floor_ms,
            trace=trace,
            timeline=timeline,
        )

        return plan_profile
