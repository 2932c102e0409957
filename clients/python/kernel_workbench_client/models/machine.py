from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.machine_versions import MachineVersions


T = TypeVar("T", bound="Machine")


@_attrs_define
class Machine:
    """The device, its libraries and the commit that it was measured with; `at` is when. Memory in GiB.

    Attributes:
        device (str):
        gpu_class (str):
        versions (MachineVersions):
        at (datetime.datetime):
        gpu_uuid (str | Unset):  Default: ''.
        lease_id (str | Unset):  Default: ''.
        driver (str | Unset):  Default: ''.
        memory_gib (float | None | Unset):
        commit (str | Unset):  Default: ''.
        sources (str | Unset):  Default: ''.
    """

    device: str
    gpu_class: str
    versions: MachineVersions
    at: datetime.datetime
    gpu_uuid: str | Unset = ""
    lease_id: str | Unset = ""
    driver: str | Unset = ""
    memory_gib: float | None | Unset = UNSET
    commit: str | Unset = ""
    sources: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        device = self.device

        gpu_class = self.gpu_class

        versions = self.versions.to_dict()

        at = self.at.isoformat()

        gpu_uuid = self.gpu_uuid

        lease_id = self.lease_id

        driver = self.driver

        memory_gib: float | None | Unset
        if isinstance(self.memory_gib, Unset):
            memory_gib = UNSET
        else:
            memory_gib = self.memory_gib

        commit = self.commit

        sources = self.sources

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "device": device,
                "gpu_class": gpu_class,
                "versions": versions,
                "at": at,
            }
        )
        if gpu_uuid is not UNSET:
            field_dict["gpu_uuid"] = gpu_uuid
        if lease_id is not UNSET:
            field_dict["lease_id"] = lease_id
        if driver is not UNSET:
            field_dict["driver"] = driver
        if memory_gib is not UNSET:
            field_dict["memory_gib"] = memory_gib
        if commit is not UNSET:
            field_dict["commit"] = commit
        if sources is not UNSET:
            field_dict["sources"] = sources

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.machine_versions import MachineVersions  # noqa: PLC0415

        d = dict(src_dict)
        device = d.pop("device")

        gpu_class = d.pop("gpu_class")

        versions = MachineVersions.from_dict(d.pop("versions"))

        at = datetime.datetime.fromisoformat(d.pop("at"))

        gpu_uuid = d.pop("gpu_uuid", UNSET)

        lease_id = d.pop("lease_id", UNSET)

        driver = d.pop("driver", UNSET)

        def _parse_memory_gib(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        memory_gib = _parse_memory_gib(d.pop("memory_gib", UNSET))

        commit = d.pop("commit", UNSET)

        sources = d.pop("sources", UNSET)

        machine = cls(
            device=device,
            gpu_class=gpu_class,
            versions=versions,
            at=at,
            gpu_uuid=gpu_uuid,
            lease_id=lease_id,
            driver=driver,
            memory_gib=memory_gib,
            commit=commit,
            sources=sources,
        )

        return machine
