from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.loaded_server_kind import LoadedServerKind, check_loaded_server_kind
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.loaded_server_settings import LoadedServerSettings


T = TypeVar("T", bound="LoadedServer")


@_attrs_define
class LoadedServer:
    """What was put under load, and on whose hardware.

    `kind`: `server`, this workbench's server; `batches`, a runner that serves batches formed as requests arrive;
    `vllm`, started for this run; `endpoint`, a server of the customer's. `hardware` is the device, or what its owner
    says of it. `settings` are those that vLLM was given, or what this workbench's server chose for the plan. `caveats`
    are sentences about what cannot be compared with the other side.

        Attributes:
            kind (LoadedServerKind):
            label (str): a few words, such as `transformers, batches of at most 8`
            sentence (str): what it is and how it forms batches
            hardware (str):
            gpu_class (str | Unset): whose price counts; empty where the hardware is not ours Default: ''.
            gpus (int | Unset):  Default: 1.
            version (str | Unset):  Default: ''.
            settings (LoadedServerSettings | Unset):
            caveats (list[str] | Unset):
    """

    kind: LoadedServerKind
    label: str
    sentence: str
    hardware: str
    gpu_class: str | Unset = ""
    gpus: int | Unset = 1
    version: str | Unset = ""
    settings: LoadedServerSettings | Unset = UNSET
    caveats: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        kind: str = self.kind

        label = self.label

        sentence = self.sentence

        hardware = self.hardware

        gpu_class = self.gpu_class

        gpus = self.gpus

        version = self.version

        settings: dict[str, Any] | Unset = UNSET
        if not isinstance(self.settings, Unset):
            settings = self.settings.to_dict()

        caveats: list[str] | Unset = UNSET
        if not isinstance(self.caveats, Unset):
            caveats = self.caveats

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "kind": kind,
                "label": label,
                "sentence": sentence,
                "hardware": hardware,
            }
        )
        if gpu_class is not UNSET:
            field_dict["gpu_class"] = gpu_class
        if gpus is not UNSET:
            field_dict["gpus"] = gpus
        if version is not UNSET:
            field_dict["version"] = version
        if settings is not UNSET:
            field_dict["settings"] = settings
        if caveats is not UNSET:
            field_dict["caveats"] = caveats

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.loaded_server_settings import LoadedServerSettings  # noqa: PLC0415

        d = dict(src_dict)
        kind = check_loaded_server_kind(d.pop("kind"))

        label = d.pop("label")

        sentence = d.pop("sentence")

        hardware = d.pop("hardware")

        gpu_class = d.pop("gpu_class", UNSET)

        gpus = d.pop("gpus", UNSET)

        version = d.pop("version", UNSET)

        _settings = d.pop("settings", UNSET)
        settings: LoadedServerSettings | Unset
        if isinstance(_settings, Unset):
            settings = UNSET
        else:
            settings = LoadedServerSettings.from_dict(_settings)

        caveats = cast(list[str], d.pop("caveats", UNSET))

        loaded_server = cls(
            kind=kind,
            label=label,
            sentence=sentence,
            hardware=hardware,
            gpu_class=gpu_class,
            gpus=gpus,
            version=version,
            settings=settings,
            caveats=caveats,
        )

        return loaded_server
