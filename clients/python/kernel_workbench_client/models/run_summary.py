from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.run_summary_state import RunSummaryState, check_run_summary_state
from ..models.run_summary_verdict_type_0 import (
    RunSummaryVerdictType0,
    check_run_summary_verdict_type_0,
)

if TYPE_CHECKING:
    from ..models.stage_failure import StageFailure


T = TypeVar("T", bound="RunSummary")


@_attrs_define
class RunSummary:
    """A run in a list.

    Attributes:
        id (UUID):
        workload (UUID):
        workload_name (str):
        model_name (str):
        state (RunSummaryState):
        stage (str):
        attempt (int):
        gpu_class (str):
        verdict (None | RunSummaryVerdictType0):
        cancel_requested (bool):
        error (None | StageFailure):
        created_at (datetime.datetime):
        started_at (datetime.datetime | None):
        finished_at (datetime.datetime | None):
    """

    id: UUID
    workload: UUID
    workload_name: str
    model_name: str
    state: RunSummaryState
    stage: str
    attempt: int
    gpu_class: str
    verdict: None | RunSummaryVerdictType0
    cancel_requested: bool
    error: None | StageFailure
    created_at: datetime.datetime
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.stage_failure import StageFailure  # noqa: PLC0415

        id = str(self.id)

        workload = str(self.workload)

        workload_name = self.workload_name

        model_name = self.model_name

        state: str = self.state

        stage = self.stage

        attempt = self.attempt

        gpu_class = self.gpu_class

        verdict: None | str
        if isinstance(self.verdict, str):
            verdict = self.verdict
        else:
            verdict = self.verdict

        cancel_requested = self.cancel_requested

        error: dict[str, Any] | None
        if isinstance(self.error, StageFailure):
            error = self.error.to_dict()
        else:
            error = self.error

        created_at = self.created_at.isoformat()

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

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "workload": workload,
                "workload_name": workload_name,
                "model_name": model_name,
                "state": state,
                "stage": stage,
                "attempt": attempt,
                "gpu_class": gpu_class,
                "verdict": verdict,
                "cancel_requested": cancel_requested,
                "error": error,
                "created_at": created_at,
                "started_at": started_at,
                "finished_at": finished_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.stage_failure import StageFailure  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        workload = UUID(d.pop("workload"))

        workload_name = d.pop("workload_name")

        model_name = d.pop("model_name")

        state = check_run_summary_state(d.pop("state"))

        stage = d.pop("stage")

        attempt = d.pop("attempt")

        gpu_class = d.pop("gpu_class")

        def _parse_verdict(data: object) -> None | RunSummaryVerdictType0:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                verdict_type_0 = check_run_summary_verdict_type_0(data)

                return verdict_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RunSummaryVerdictType0, data)

        verdict = _parse_verdict(d.pop("verdict"))

        cancel_requested = d.pop("cancel_requested")

        def _parse_error(data: object) -> None | StageFailure:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                error_type_0 = StageFailure.from_dict(data)

                return error_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | StageFailure, data)

        error = _parse_error(d.pop("error"))

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

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

        run_summary = cls(
            id=id,
            workload=workload,
            workload_name=workload_name,
            model_name=model_name,
            state=state,
            stage=stage,
            attempt=attempt,
            gpu_class=gpu_class,
            verdict=verdict,
            cancel_requested=cancel_requested,
            error=error,
            created_at=created_at,
            started_at=started_at,
            finished_at=finished_at,
        )

        run_summary.additional_properties = d
        return run_summary

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
