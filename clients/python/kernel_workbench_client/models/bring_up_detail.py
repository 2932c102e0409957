from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.bring_up import BringUp


T = TypeVar("T", bound="BringUpDetail")


@_attrs_define
class BringUpDetail:
    """A bring-up with all that it found.

    Attributes:
        id (UUID):
        device (str):
        gpu_class (str):
        measured_at (datetime.datetime):
        quick (bool):
        passed (int):
        failed (int):
        created_at (datetime.datetime):
        document (BringUp): Everything that a bring-up found.

            `stopped` holds a sentence for each step whose process ended or took too long; `left_out` names the steps that
            there
            was no time for. `limits` is null where their step gave nothing.
    """

    id: UUID
    device: str
    gpu_class: str
    measured_at: datetime.datetime
    quick: bool
    passed: int
    failed: int
    created_at: datetime.datetime
    document: BringUp
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = str(self.id)

        device = self.device

        gpu_class = self.gpu_class

        measured_at = self.measured_at.isoformat()

        quick = self.quick

        passed = self.passed

        failed = self.failed

        created_at = self.created_at.isoformat()

        document = self.document.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "device": device,
                "gpu_class": gpu_class,
                "measured_at": measured_at,
                "quick": quick,
                "passed": passed,
                "failed": failed,
                "created_at": created_at,
                "document": document,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.bring_up import BringUp  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        device = d.pop("device")

        gpu_class = d.pop("gpu_class")

        measured_at = datetime.datetime.fromisoformat(d.pop("measured_at"))

        quick = d.pop("quick")

        passed = d.pop("passed")

        failed = d.pop("failed")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        document = BringUp.from_dict(d.pop("document"))

        bring_up_detail = cls(
            id=id,
            device=device,
            gpu_class=gpu_class,
            measured_at=measured_at,
            quick=quick,
            passed=passed,
            failed=failed,
            created_at=created_at,
            document=document,
        )

        bring_up_detail.additional_properties = d
        return bring_up_detail

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
