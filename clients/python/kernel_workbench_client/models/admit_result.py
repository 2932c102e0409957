from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.admit_result_kind import AdmitResultKind, check_admit_result_kind
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.feasibility import Feasibility


T = TypeVar("T", bound="AdmitResult")


@_attrs_define
class AdmitResult:
    """
    Attributes:
        kind (AdmitResultKind):
        family (str):
        architecture (str):
        parameters (int):
        weight_bytes (int):
        kv_bytes_per_token (int):
        dtype (str):
        classes (list[Feasibility]):
        notes (list[str] | Unset):
    """

    kind: AdmitResultKind
    family: str
    architecture: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    dtype: str
    classes: list[Feasibility]
    notes: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        kind: str = self.kind

        family = self.family

        architecture = self.architecture

        parameters = self.parameters

        weight_bytes = self.weight_bytes

        kv_bytes_per_token = self.kv_bytes_per_token

        dtype = self.dtype

        classes = []
        for classes_item_data in self.classes:
            classes_item = classes_item_data.to_dict()
            classes.append(classes_item)

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "kind": kind,
                "family": family,
                "architecture": architecture,
                "parameters": parameters,
                "weight_bytes": weight_bytes,
                "kv_bytes_per_token": kv_bytes_per_token,
                "dtype": dtype,
                "classes": classes,
            }
        )
        if notes is not UNSET:
            field_dict["notes"] = notes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.feasibility import Feasibility  # noqa: PLC0415

        d = dict(src_dict)
        kind = check_admit_result_kind(d.pop("kind"))

        family = d.pop("family")

        architecture = d.pop("architecture")

        parameters = d.pop("parameters")

        weight_bytes = d.pop("weight_bytes")

        kv_bytes_per_token = d.pop("kv_bytes_per_token")

        dtype = d.pop("dtype")

        classes = []
        _classes = d.pop("classes")
        for classes_item_data in _classes:
            classes_item = Feasibility.from_dict(classes_item_data)

            classes.append(classes_item)

        notes = cast(list[str], d.pop("notes", UNSET))

        admit_result = cls(
            kind=kind,
            family=family,
            architecture=architecture,
            parameters=parameters,
            weight_bytes=weight_bytes,
            kv_bytes_per_token=kv_bytes_per_token,
            dtype=dtype,
            classes=classes,
            notes=notes,
        )

        return admit_result
