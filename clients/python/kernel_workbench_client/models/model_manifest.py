from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..models.model_manifest_counted import (
    ModelManifestCounted,
    check_model_manifest_counted,
)
from ..models.model_manifest_kind import ModelManifestKind, check_model_manifest_kind
from ..models.model_manifest_source import (
    ModelManifestSource,
    check_model_manifest_source,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.model_file import ModelFile
    from ..models.model_manifest_config import ModelManifestConfig


T = TypeVar("T", bound="ModelManifest")


@_attrs_define
class ModelManifest:
    """A model as a stage and its worker know it.

    `digest` covers what changes the outputs and names the model in plans; `content_digest` covers all of `files` and
    names what is stored and served (`kernels.model_files.digests`). Without weights among the files, they are
    `generated` from `seed`. Results of older versions have no `content_digest`.

        Attributes:
            digest (str):
            name (str):
            source (ModelManifestSource):
            config (ModelManifestConfig):
            files (list[ModelFile]):
            generated (bool):
            architecture (str):
            model_type (str):
            kind (ModelManifestKind):
            parameters (int):
            weight_bytes (int):
            content_digest (str | Unset):  Default: ''.
            seed (int | Unset):  Default: 0.
            counted (ModelManifestCounted | Unset):  Default: 'tokens'.
            has_tokenizer (bool | Unset):  Default: False.
    """

    digest: str
    name: str
    source: ModelManifestSource
    config: ModelManifestConfig
    files: list[ModelFile]
    generated: bool
    architecture: str
    model_type: str
    kind: ModelManifestKind
    parameters: int
    weight_bytes: int
    content_digest: str | Unset = ""
    seed: int | Unset = 0
    counted: ModelManifestCounted | Unset = "tokens"
    has_tokenizer: bool | Unset = False

    def to_dict(self) -> dict[str, Any]:
        digest = self.digest

        name = self.name

        source: str = self.source

        config = self.config.to_dict()

        files = []
        for files_item_data in self.files:
            files_item = files_item_data.to_dict()
            files.append(files_item)

        generated = self.generated

        architecture = self.architecture

        model_type = self.model_type

        kind: str = self.kind

        parameters = self.parameters

        weight_bytes = self.weight_bytes

        content_digest = self.content_digest

        seed = self.seed

        counted: str | Unset = UNSET
        if not isinstance(self.counted, Unset):
            counted = self.counted

        has_tokenizer = self.has_tokenizer

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "digest": digest,
                "name": name,
                "source": source,
                "config": config,
                "files": files,
                "generated": generated,
                "architecture": architecture,
                "model_type": model_type,
                "kind": kind,
                "parameters": parameters,
                "weight_bytes": weight_bytes,
            }
        )
        if content_digest is not UNSET:
            field_dict["content_digest"] = content_digest
        if seed is not UNSET:
            field_dict["seed"] = seed
        if counted is not UNSET:
            field_dict["counted"] = counted
        if has_tokenizer is not UNSET:
            field_dict["has_tokenizer"] = has_tokenizer

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.model_file import ModelFile  # noqa: PLC0415
        from ..models.model_manifest_config import ModelManifestConfig  # noqa: PLC0415

        d = dict(src_dict)
        digest = d.pop("digest")

        name = d.pop("name")

        source = check_model_manifest_source(d.pop("source"))

        config = ModelManifestConfig.from_dict(d.pop("config"))

        files = []
        _files = d.pop("files")
        for files_item_data in _files:
            files_item = ModelFile.from_dict(files_item_data)

            files.append(files_item)

        generated = d.pop("generated")

        architecture = d.pop("architecture")

        model_type = d.pop("model_type")

        kind = check_model_manifest_kind(d.pop("kind"))

        parameters = d.pop("parameters")

        weight_bytes = d.pop("weight_bytes")

        content_digest = d.pop("content_digest", UNSET)

        seed = d.pop("seed", UNSET)

        _counted = d.pop("counted", UNSET)
        counted: ModelManifestCounted | Unset
        if isinstance(_counted, Unset):
            counted = UNSET
        else:
            counted = check_model_manifest_counted(_counted)

        has_tokenizer = d.pop("has_tokenizer", UNSET)

        model_manifest = cls(
            digest=digest,
            name=name,
            source=source,
            config=config,
            files=files,
            generated=generated,
            architecture=architecture,
            model_type=model_type,
            kind=kind,
            parameters=parameters,
            weight_bytes=weight_bytes,
            content_digest=content_digest,
            seed=seed,
            counted=counted,
            has_tokenizer=has_tokenizer,
        )

        return model_manifest
