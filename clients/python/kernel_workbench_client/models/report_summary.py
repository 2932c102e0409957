from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="ReportSummary")


@_attrs_define
class ReportSummary:
    """A report in a list.

    Attributes:
        id (UUID):
        run (UUID):
        title (str):
        state (str):
        verdict (str):
        note (str):
        created_at (datetime.datetime):
        reviewed_at (datetime.datetime | None):
        published_at (datetime.datetime | None):
    """

    id: UUID
    run: UUID
    title: str
    state: str
    verdict: str
    note: str
    created_at: datetime.datetime
    reviewed_at: datetime.datetime | None
    published_at: datetime.datetime | None
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = str(self.id)

        run = str(self.run)

        title = self.title

        state = self.state

        verdict = self.verdict

        note = self.note

        created_at = self.created_at.isoformat()

        reviewed_at: None | str
        if isinstance(self.reviewed_at, datetime.datetime):
            reviewed_at = self.reviewed_at.isoformat()
        else:
            reviewed_at = self.reviewed_at

        published_at: None | str
        if isinstance(self.published_at, datetime.datetime):
            published_at = self.published_at.isoformat()
        else:
            published_at = self.published_at

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "run": run,
                "title": title,
                "state": state,
                "verdict": verdict,
                "note": note,
                "created_at": created_at,
                "reviewed_at": reviewed_at,
                "published_at": published_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        id = UUID(d.pop("id"))

        run = UUID(d.pop("run"))

        title = d.pop("title")

        state = d.pop("state")

        verdict = d.pop("verdict")

        note = d.pop("note")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        def _parse_reviewed_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                reviewed_at_type_0 = datetime.datetime.fromisoformat(data)

                return reviewed_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        reviewed_at = _parse_reviewed_at(d.pop("reviewed_at"))

        def _parse_published_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                published_at_type_0 = datetime.datetime.fromisoformat(data)

                return published_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        published_at = _parse_published_at(d.pop("published_at"))

        report_summary = cls(
            id=id,
            run=run,
            title=title,
            state=state,
            verdict=verdict,
            note=note,
            created_at=created_at,
            reviewed_at=reviewed_at,
            published_at=published_at,
        )

        report_summary.additional_properties = d
        return report_summary

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
