from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.confinement import Confinement
    from ..models.environment_versions import EnvironmentVersions
    from ..models.telemetry import Telemetry


T = TypeVar("T", bound="Environment")


@_attrs_define
class Environment:
    """The device, the libraries and the commit that a figure was measured with; `at` is ISO 8601 UTC.

    Attributes:
        device (str):
        gpu_class (str):
        versions (EnvironmentVersions):
        at (str):
        gpu_uuid (str | Unset):  Default: ''.
        lease_id (str | Unset):  Default: ''.
        driver (str | Unset):  Default: ''.
        memory_gib (float | None | Unset):
        commit (str | Unset): with -dirty behind it where files differed; empty when installed Default: ''.
        sources (str | Unset): SHA-256 of the code that measured: of kernels and workers Default: ''.
        telemetry (Telemetry | Unset): Clocks and power while something was measured; None where the machine does not
            tell.
        confinement (Confinement | None | Unset): as the worker saw it; None in a stage by hand
    """

    device: str
    gpu_class: str
    versions: EnvironmentVersions
    at: str
    gpu_uuid: str | Unset = ""
    lease_id: str | Unset = ""
    driver: str | Unset = ""
    memory_gib: float | None | Unset = UNSET
    commit: str | Unset = ""
    sources: str | Unset = ""
    telemetry: Telemetry | Unset = UNSET
    confinement: Confinement | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.confinement import Confinement  # noqa: PLC0415

        device = self.device

        gpu_class = self.gpu_class

        versions = self.versions.to_dict()

        at = self.at

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

        telemetry: dict[str, Any] | Unset = UNSET
        if not isinstance(self.telemetry, Unset):
            telemetry = self.telemetry.to_dict()

        confinement: dict[str, Any] | None | Unset
        if isinstance(self.confinement, Unset):
            confinement = UNSET
        elif isinstance(self.confinement, Confinement):
            confinement = self.confinement.to_dict()
        else:
            confinement = self.confinement

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
        if telemetry is not UNSET:
            field_dict["telemetry"] = telemetry
        if confinement is not UNSET:
            field_dict["confinement"] = confinement

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.confinement import Confinement  # noqa: PLC0415
        from ..models.environment_versions import EnvironmentVersions  # noqa: PLC0415
        from ..models.telemetry import Telemetry  # noqa: PLC0415

        d = dict(src_dict)
        device = d.pop("device")

        gpu_class = d.pop("gpu_class")

        versions = EnvironmentVersions.from_dict(d.pop("versions"))

        at = d.pop("at")

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

        _telemetry = d.pop("telemetry", UNSET)
        telemetry: Telemetry | Unset
        if isinstance(_telemetry, Unset):
            telemetry = UNSET
        else:
            telemetry = Telemetry.from_dict(_telemetry)

        def _parse_confinement(data: object) -> Confinement | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                confinement_type_0 = Confinement.from_dict(data)

                return confinement_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Confinement | None | Unset, data)

        confinement = _parse_confinement(d.pop("confinement", UNSET))

        environment = cls(
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
            telemetry=telemetry,
            confinement=confinement,
        )

        return environment
