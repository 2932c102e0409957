from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_ref import ModelRef
    from ..models.workload import Workload


T = TypeVar("T", bound="WorkloadOut")


@_attrs_define
class WorkloadOut:
    """A workload; `document` is what was handed in, with every default filled in.

    Attributes:
        id (UUID):
        name (str):
        model (ModelRef):
        document (None | Workload): null when `unreadable` says why
        runs (list[UUID]): its 25 newest runs, newest first; GET /runs?workload= lists all
        created_at (datetime.datetime):
        unreadable (str | Unset):  Default: ''.
    """

    id: UUID
    name: str
    model: ModelRef
    document: None | Workload
    runs: list[UUID]
    created_at: datetime.datetime
    unreadable: str | Unset = ""
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.workload import Workload  # noqa: PLC0415

        id = str(self.id)

        name = self.name

        model = self.model.to_dict()

        document: dict[str, Any] | None
        if isinstance(self.document, Workload):
            document = self.document.to_dict()
        else:
            document = self.document

        runs = []
        for runs_item_data in self.runs:
            runs_item = str(runs_item_data)
            runs.append(runs_item)

        created_at = self.created_at.isoformat()

        unreadable = self.unreadable

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "model": model,
                "document": document,
                "runs": runs,
                "created_at": created_at,
            }
        )
        if unreadable is not UNSET:
            field_dict["unreadable"] = unreadable

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_ref import ModelRef  # noqa: PLC0415
        from ..models.workload import Workload  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        name = d.pop("name")

        model = ModelRef.from_dict(d.pop("model"))

        def _parse_document(data: object) -> None | Workload:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                document_type_0 = Workload.from_dict(data)

                return document_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Workload, data)

        document = _parse_document(d.pop("document"))

        runs = []
        _runs = d.pop("runs")
        for runs_item_data in _runs:
            runs_item = UUID(runs_item_data)

            runs.append(runs_item)

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        unreadable = d.pop("unreadable", UNSET)

        workload_out = cls(
            id=id,
            name=name,
            model=model,
            document=document,
            runs=runs,
            created_at=created_at,
            unreadable=unreadable,
        )

        workload_out.additional_properties = d
        return workload_out

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
