from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.upload_out_state import UploadOutState, check_upload_out_state
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_out import ModelOut
    from ..models.problem_document import ProblemDocument
    from ..models.recording_out import RecordingOut
    from ..models.upload_file_out import UploadFileOut


T = TypeVar("T", bound="UploadOut")


@_attrs_define
class UploadOut:
    """An upload; a PATCH may carry up to `chunk_bytes`.

    `state` becomes `checking` when it is finished, then `finished`, with the `model` or the `recording`, or `refused`:
    then nothing of it is kept. It is `receiving` again where it could not be checked. `problem` says why.

        Attributes:
            id (UUID):
            name (str):
            chunk_bytes (int):
            state (UploadOutState):
            files (list[UploadFileOut]): none once it has ended
            created_at (datetime.datetime):
            model (ModelOut | None | Unset):
            recording (None | RecordingOut | Unset):
            problem (None | ProblemDocument | Unset):
    """

    id: UUID
    name: str
    chunk_bytes: int
    state: UploadOutState
    files: list[UploadFileOut]
    created_at: datetime.datetime
    model: ModelOut | None | Unset = UNSET
    recording: None | RecordingOut | Unset = UNSET
    problem: None | ProblemDocument | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.model_out import ModelOut  # noqa: PLC0415
        from ..models.problem_document import ProblemDocument  # noqa: PLC0415
        from ..models.recording_out import RecordingOut  # noqa: PLC0415

        id = str(self.id)

        name = self.name

        chunk_bytes = self.chunk_bytes

        state: str = self.state

        files = []
        for files_item_data in self.files:
            files_item = files_item_data.to_dict()
            files.append(files_item)

        created_at = self.created_at.isoformat()

        model: dict[str, Any] | None | Unset
        if isinstance(self.model, Unset):
            model = UNSET
        elif isinstance(self.model, ModelOut):
            model = self.model.to_dict()
        else:
            model = self.model

        recording: dict[str, Any] | None | Unset
        if isinstance(self.recording, Unset):
            recording = UNSET
        elif isinstance(self.recording, RecordingOut):
            recording = self.recording.to_dict()
        else:
            recording = self.recording

        problem: dict[str, Any] | None | Unset
        if isinstance(self.problem, Unset):
            problem = UNSET
        elif isinstance(self.problem, ProblemDocument):
            problem = self.problem.to_dict()
        else:
            problem = self.problem

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "chunk_bytes": chunk_bytes,
                "state": state,
                "files": files,
                "created_at": created_at,
            }
        )
        if model is not UNSET:
            field_dict["model"] = model
        if recording is not UNSET:
            field_dict["recording"] = recording
        if problem is not UNSET:
            field_dict["problem"] = problem

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_out import ModelOut  # noqa: PLC0415
        from ..models.problem_document import ProblemDocument  # noqa: PLC0415
        from ..models.recording_out import RecordingOut  # noqa: PLC0415
        from ..models.upload_file_out import UploadFileOut  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        name = d.pop("name")

        chunk_bytes = d.pop("chunk_bytes")

        state = check_upload_out_state(d.pop("state"))

        files = []
        _files = d.pop("files")
        for files_item_data in _files:
            files_item = UploadFileOut.from_dict(files_item_data)

            files.append(files_item)

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        def _parse_model(data: object) -> ModelOut | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                model_type_0 = ModelOut.from_dict(data)

                return model_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ModelOut | None | Unset, data)

        model = _parse_model(d.pop("model", UNSET))

        def _parse_recording(data: object) -> None | RecordingOut | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                recording_type_0 = RecordingOut.from_dict(data)

                return recording_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | RecordingOut | Unset, data)

        recording = _parse_recording(d.pop("recording", UNSET))

        def _parse_problem(data: object) -> None | ProblemDocument | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_0 = ProblemDocument.from_dict(data)

                return problem_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ProblemDocument | Unset, data)

        problem = _parse_problem(d.pop("problem", UNSET))

        upload_out = cls(
            id=id,
            name=name,
            chunk_bytes=chunk_bytes,
            state=state,
            files=files,
            created_at=created_at,
            model=model,
            recording=recording,
            problem=problem,
        )

        upload_out.additional_properties = d
        return upload_out

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
