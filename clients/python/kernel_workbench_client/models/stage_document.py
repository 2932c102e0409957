from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.stage_document_partial_type_0 import StageDocumentPartialType0
    from ..models.stage_document_result_type_0 import StageDocumentResultType0


T = TypeVar("T", bound="StageDocument")


@_attrs_define
class StageDocument:
    """A stage with its result, or what is already known of it.

    Attributes:
        stage (str):
        state (str):
        attempt (int):
        progress (float):
        message (str):
        started_at (datetime.datetime | None):
        finished_at (datetime.datetime | None):
        partial (None | StageDocumentPartialType0):
        result (None | StageDocumentResultType0):
    """

    stage: str
    state: str
    attempt: int
    progress: float
    message: str
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    partial: None | StageDocumentPartialType0
    result: None | StageDocumentResultType0
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.stage_document_partial_type_0 import StageDocumentPartialType0  # noqa: PLC0415
        from ..models.stage_document_result_type_0 import StageDocumentResultType0  # noqa: PLC0415

        stage = self.stage

        state = self.state

        attempt = self.attempt

        progress = self.progress

        message = self.message

        started_at: None | str
        if isinstance(self.started_at, datetime.datetime):
            started_at = self.started_at.isoformat()
        else:
            started_at = self.started_at

        finished_at: None | str
        if isinstance(self.finished_at, datetime.datetime):
            finished_at = self.finished_at.isoformat()
        else:
            finished_at = self.finished_at

        partial: dict[str, Any] | None
        if isinstance(self.partial, StageDocumentPartialType0):
            partial = self.partial.to_dict()
        else:
            partial = self.partial

        result: dict[str, Any] | None
        if isinstance(self.result, StageDocumentResultType0):
            result = self.result.to_dict()
        else:
            result = self.result

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "stage": stage,
                "state": state,
                "attempt": attempt,
                "progress": progress,
                "message": message,
                "started_at": started_at,
                "finished_at": finished_at,
                "partial": partial,
                "result": result,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.stage_document_partial_type_0 import StageDocumentPartialType0  # noqa: PLC0415
        from ..models.stage_document_result_type_0 import StageDocumentResultType0  # noqa: PLC0415

        d = dict(src_dict)
        stage = d.pop("stage")

        state = d.pop("state")

        attempt = d.pop("attempt")

        progress = d.pop("progress")

        message = d.pop("message")

        def _parse_started_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                started_at_type_0 = datetime.datetime.fromisoformat(data)

                return started_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        started_at = _parse_started_at(d.pop("started_at"))

        def _parse_finished_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                finished_at_type_0 = datetime.datetime.fromisoformat(data)

                return finished_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        finished_at = _parse_finished_at(d.pop("finished_at"))

        def _parse_partial(data: object) -> None | StageDocumentPartialType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                partial_type_0 = StageDocumentPartialType0.from_dict(data)

                return partial_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StageDocumentPartialType0, data)

        partial = _parse_partial(d.pop("partial"))

        def _parse_result(data: object) -> None | StageDocumentResultType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                result_type_0 = StageDocumentResultType0.from_dict(data)

                return result_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StageDocumentResultType0, data)

        result = _parse_result(d.pop("result"))

        stage_document = cls(
            stage=stage,
            state=state,
            attempt=attempt,
            progress=progress,
            message=message,
            started_at=started_at,
            finished_at=finished_at,
            partial=partial,
            result=result,
        )

        stage_document.additional_properties = d
        return stage_document

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
