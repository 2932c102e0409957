from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="Dependents")


@_attrs_define
class Dependents:
    """What is deleted together with a model, a workload or a run, as counts; files are those that runs kept.

    Attributes:
        workloads (int | Unset):  Default: 0.
        runs (int | Unset):  Default: 0.
        open_runs (int | Unset): runs that are not over; while there are any, nothing is deleted Default: 0.
        reports (int | Unset):  Default: 0.
        published_reports (int | Unset): of the reports; with any, only an admin may delete Default: 0.
        files (int | Unset):  Default: 0.
        file_bytes (int | Unset):  Default: 0.
        recordings (int | Unset): of traffic, that no other workload names Default: 0.
    """

    workloads: int | Unset = 0
    runs: int | Unset = 0
    open_runs: int | Unset = 0
    reports: int | Unset = 0
    published_reports: int | Unset = 0
    files: int | Unset = 0
    file_bytes: int | Unset = 0
    recordings: int | Unset = 0
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        workloads = self.workloads

        runs = self.runs

        open_runs = self.open_runs

        reports = self.reports

        published_reports = self.published_reports

        files = self.files

        file_bytes = self.file_bytes

        recordings = self.recordings

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update({})
        if workloads is not UNSET:
            field_dict["workloads"] = workloads
        if runs is not UNSET:
            field_dict["runs"] = runs
        if open_runs is not UNSET:
            field_dict["open_runs"] = open_runs
        if reports is not UNSET:
            field_dict["reports"] = reports
        if published_reports is not UNSET:
            field_dict["published_reports"] = published_reports
        if files is not UNSET:
            field_dict["files"] = files
        if file_bytes is not UNSET:
            field_dict["file_bytes"] = file_bytes
        if recordings is not UNSET:
            field_dict["recordings"] = recordings

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        workloads = d.pop("workloads", UNSET)

        runs = d.pop("runs", UNSET)

        open_runs = d.pop("open_runs", UNSET)

        reports = d.pop("reports", UNSET)

        published_reports = d.pop("published_reports", UNSET)

        files = d.pop("files", UNSET)

        file_bytes = d.pop("file_bytes", UNSET)

        recordings = d.pop("recordings", UNSET)

        dependents = cls(
            workloads=workloads,
            runs=runs,
            open_runs=open_runs,
            reports=reports,
            published_reports=published_reports,
            files=files,
            file_bytes=file_bytes,
            recordings=recordings,
        )

        dependents.additional_properties = d
        return dependents

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
