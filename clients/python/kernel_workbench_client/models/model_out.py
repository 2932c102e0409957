from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.model_out_kind_type_0 import (
    ModelOutKindType0,
    check_model_out_kind_type_0,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_file import ModelFile


T = TypeVar("T", bound="ModelOut")


@_attrs_define
class ModelOut:
    """A model of the organisation. Sizes in bytes.

    A workload names it by `content_digest`, which covers all its files. `digest` covers what changes its outputs and
    names it in plans; a workload may also give that, and gets the newest model that has it.

    `unreadable` says why this version cannot read the stored manifest; what the manifest says is then null.

        Attributes:
            id (UUID):
            name (str):
            digest (str):
            content_digest (str):
            size (int):
            created_at (datetime.datetime):
            source (None | str | Unset):
            kind (ModelOutKindType0 | None | Unset):
            architecture (None | str | Unset):
            model_type (None | str | Unset):
            parameters (int | None | Unset):
            weight_bytes (int | None | Unset):
            generated (bool | None | Unset):
            has_tokenizer (bool | None | Unset):
            files (list[ModelFile] | Unset):
            unreadable (str | Unset):  Default: ''.
    """

    id: UUID
    name: str
    digest: str
    content_digest: str
    size: int
    created_at: datetime.datetime
    source: None | str | Unset = UNSET
    kind: ModelOutKindType0 | None | Unset = UNSET
    architecture: None | str | Unset = UNSET
    model_type: None | str | Unset = UNSET
    parameters: int | None | Unset = UNSET
    weight_bytes: int | None | Unset = UNSET
    generated: bool | None | Unset = UNSET
    has_tokenizer: bool | None | Unset = UNSET
    files: list[ModelFile] | Unset = UNSET
    unreadable: str | Unset = ""
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        id = str(self.id)

        name = self.name

        digest = self.digest

        content_digest = self.content_digest

        size = self.size

        created_at = self.created_at.isoformat()

        source: None | str | Unset
        if isinstance(self.source, Unset):
            source = UNSET
        else:
            source = self.source

        kind: None | str | Unset
        if isinstance(self.kind, Unset):
            kind = UNSET
        elif isinstance(self.kind, str):
            kind = self.kind
        else:
            kind = self.kind

        architecture: None | str | Unset
        if isinstance(self.architecture, Unset):
            architecture = UNSET
        else:
            architecture = self.architecture

        model_type: None | str | Unset
        if isinstance(self.model_type, Unset):
            model_type = UNSET
        else:
            model_type = self.model_type

        parameters: int | None | Unset
        if isinstance(self.parameters, Unset):
            parameters = UNSET
        else:
            parameters = self.parameters

        weight_bytes: int | None | Unset
        if isinstance(self.weight_bytes, Unset):
            weight_bytes = UNSET
        else:
            weight_bytes = self.weight_bytes

        generated: bool | None | Unset
        if isinstance(self.generated, Unset):
            generated = UNSET
        else:
            generated = self.generated

        has_tokenizer: bool | None | Unset
        if isinstance(self.has_tokenizer, Unset):
            has_tokenizer = UNSET
        else:
            has_tokenizer = self.has_tokenizer

        files: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.files, Unset):
            files = []
            for files_item_data in self.files:
                files_item = files_item_data.to_dict()
                files.append(files_item)

        unreadable = self.unreadable

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "id": id,
                "name": name,
                "digest": digest,
                "content_digest": content_digest,
                "size": size,
                "created_at": created_at,
            }
        )
        if source is not UNSET:
            field_dict["source"] = source
        if kind is not UNSET:
            field_dict["kind"] = kind
        if architecture is not UNSET:
            field_dict["architecture"] = architecture
        if model_type is not UNSET:
            field_dict["model_type"] = model_type
        if parameters is not UNSET:
            field_dict["parameters"] = parameters
        if weight_bytes is not UNSET:
            field_dict["weight_bytes"] = weight_bytes
        if generated is not UNSET:
            field_dict["generated"] = generated
        if has_tokenizer is not UNSET:
            field_dict["has_tokenizer"] = has_tokenizer
        if files is not UNSET:
            field_dict["files"] = files
        if unreadable is not UNSET:
            field_dict["unreadable"] = unreadable

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_file import ModelFile  # noqa: PLC0415

        d = dict(src_dict)
        id = UUID(d.pop("id"))

        name = d.pop("name")

        digest = d.pop("digest")

        content_digest = d.pop("content_digest")

        size = d.pop("size")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        def _parse_source(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        source = _parse_source(d.pop("source", UNSET))

        def _parse_kind(data: object) -> ModelOutKindType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                kind_type_0 = check_model_out_kind_type_0(data)

                return kind_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ModelOutKindType0 | None | Unset, data)

        kind = _parse_kind(d.pop("kind", UNSET))

        def _parse_architecture(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        architecture = _parse_architecture(d.pop("architecture", UNSET))

        def _parse_model_type(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        model_type = _parse_model_type(d.pop("model_type", UNSET))

        def _parse_parameters(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        parameters = _parse_parameters(d.pop("parameters", UNSET))

        def _parse_weight_bytes(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        weight_bytes = _parse_weight_bytes(d.pop("weight_bytes", UNSET))

        def _parse_generated(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        generated = _parse_generated(d.pop("generated", UNSET))

        def _parse_has_tokenizer(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        has_tokenizer = _parse_has_tokenizer(d.pop("has_tokenizer", UNSET))

        _files = d.pop("files", UNSET)
        files: list[ModelFile] | Unset = UNSET
        if _files is not UNSET:
            files = []
            for files_item_data in _files:
                files_item = ModelFile.from_dict(files_item_data)

                files.append(files_item)

        unreadable = d.pop("unreadable", UNSET)

        model_out = cls(
            id=id,
            name=name,
            digest=digest,
            content_digest=content_digest,
            size=size,
            created_at=created_at,
            source=source,
            kind=kind,
            architecture=architecture,
            model_type=model_type,
            parameters=parameters,
            weight_bytes=weight_bytes,
            generated=generated,
            has_tokenizer=has_tokenizer,
            files=files,
            unreadable=unreadable,
        )

        model_out.additional_properties = d
        return model_out

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
