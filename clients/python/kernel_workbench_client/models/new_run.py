from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="NewRun")


@_attrs_define
class NewRun:
    """Which workload to run, and on which of its GPU classes (default: the first that has a worker).

    Attributes:
        workload (UUID):
        gpu_class (None | str | Unset):
    """

    workload: UUID
    gpu_class: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        workload = str(self.workload)

        gpu_class: None | str | Unset
        if isinstance(self.gpu_class, Unset):
            gpu_class = UNSET
        else:
            gpu_class = self.gpu_class

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "workload": workload,
            }
        )
        if gpu_class is not UNSET:
            field_dict["gpu_class"] = gpu_class

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        workload = UUID(d.pop("workload"))

        def _parse_gpu_class(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        gpu_class = _parse_gpu_class(d.pop("gpu_class", UNSET))

        new_run = cls(
            workload=workload,
            gpu_class=gpu_class,
        )

        return new_run
