from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.catalogue_entry_kind import CatalogueEntryKind, check_catalogue_entry_kind

T = TypeVar("T", bound="CatalogueEntry")


@_attrs_define
class CatalogueEntry:
    """A known configuration; a workload names it by `name`, and its weights come from a seed.

    Attributes:
        name (str):
        summary (str):
        kind (CatalogueEntryKind):
        architecture (str):
        model_type (str):
        parameters (int):
        weight_bytes (int):
    """

    name: str
    summary: str
    kind: CatalogueEntryKind
    architecture: str
    model_type: str
    parameters: int
    weight_bytes: int
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        name = self.name

        summary = self.summary

        kind: str = self.kind

        architecture = self.architecture

        model_type = self.model_type

        parameters = self.parameters

        weight_bytes = self.weight_bytes

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "name": name,
                "summary": summary,
                "kind": kind,
                "architecture": architecture,
                "model_type": model_type,
                "parameters": parameters,
                "weight_bytes": weight_bytes,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        name = d.pop("name")

        summary = d.pop("summary")

        kind = check_catalogue_entry_kind(d.pop("kind"))

        architecture = d.pop("architecture")

        model_type = d.pop("model_type")

        parameters = d.pop("parameters")

        weight_bytes = d.pop("weight_bytes")

        catalogue_entry = cls(
            name=name,
            summary=summary,
            kind=kind,
            architecture=architecture,
            model_type=model_type,
            parameters=parameters,
            weight_bytes=weight_bytes,
        )

        catalogue_entry.additional_properties = d
        return catalogue_entry

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
