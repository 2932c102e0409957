from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval
    from ..models.peer_trial_settings import PeerTrialSettings
    from ..models.served_ids import ServedIds


T = TypeVar("T", bound="PeerTrial")


@_attrs_define
class PeerTrial:
    """Another engine on the same weights, prompts and traffic as the plans: measured beside them, never one of them.

    `gate`: pass; fail (it served other ids), error, or refused (not measured); `sentence` says which in words.
    `settings` are what the engine said it runs with.

        Attributes:
            label (str):
            gate (str):
            sentence (str):
            peer (bool | Unset):  Default: True.
            version (str | Unset):  Default: ''.
            settings (PeerTrialSettings | Unset):
            primary (Interval | None | Unset): the first objective's metric, quick measurement
            unit (str | Unset):  Default: 'ms'.
            start_seconds (float | None | Unset):
            served_ids (None | ServedIds | Unset):
    """

    label: str
    gate: str
    sentence: str
    peer: bool | Unset = True
    version: str | Unset = ""
    settings: PeerTrialSettings | Unset = UNSET
    primary: Interval | None | Unset = UNSET
    unit: str | Unset = "ms"
    start_seconds: float | None | Unset = UNSET
    served_ids: None | ServedIds | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.served_ids import ServedIds  # noqa: PLC0415

        label = self.label

        gate = self.gate

        sentence = self.sentence

        peer = self.peer

        version = self.version

        settings: dict[str, Any] | Unset = UNSET
        if not isinstance(self.settings, Unset):
            settings = self.settings.to_dict()

        primary: dict[str, Any] | None | Unset
        if isinstance(self.primary, Unset):
            primary = UNSET
        elif isinstance(self.primary, Interval):
            primary = self.primary.to_dict()
        else:
            primary = self.primary

        unit = self.unit

        start_seconds: float | None | Unset
        if isinstance(self.start_seconds, Unset):
            start_seconds = UNSET
        else:
            start_seconds = self.start_seconds

        served_ids: dict[str, Any] | None | Unset
        if isinstance(self.served_ids, Unset):
            served_ids = UNSET
        elif isinstance(self.served_ids, ServedIds):
            served_ids = self.served_ids.to_dict()
        else:
            served_ids = self.served_ids

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "gate": gate,
                "sentence": sentence,
            }
        )
        if peer is not UNSET:
            field_dict["peer"] = peer
        if version is not UNSET:
            field_dict["version"] = version
        if settings is not UNSET:
            field_dict["settings"] = settings
        if primary is not UNSET:
            field_dict["primary"] = primary
        if unit is not UNSET:
            field_dict["unit"] = unit
        if start_seconds is not UNSET:
            field_dict["start_seconds"] = start_seconds
        if served_ids is not UNSET:
            field_dict["served_ids"] = served_ids

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.peer_trial_settings import PeerTrialSettings  # noqa: PLC0415
        from ..models.served_ids import ServedIds  # noqa: PLC0415

        d = dict(src_dict)
        label = d.pop("label")

        gate = d.pop("gate")

        sentence = d.pop("sentence")

        peer = d.pop("peer", UNSET)

        version = d.pop("version", UNSET)

        _settings = d.pop("settings", UNSET)
        settings: PeerTrialSettings | Unset
        if isinstance(_settings, Unset):
            settings = UNSET
        else:
            settings = PeerTrialSettings.from_dict(_settings)

        def _parse_primary(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                primary_type_0 = Interval.from_dict(data)

                return primary_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        primary = _parse_primary(d.pop("primary", UNSET))

        unit = d.pop("unit", UNSET)

        def _parse_start_seconds(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        start_seconds = _parse_start_seconds(d.pop("start_seconds", UNSET))

        def _parse_served_ids(data: object) -> None | ServedIds | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                served_ids_type_0 = ServedIds.from_dict(data)

                return served_ids_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServedIds | Unset, data)

        served_ids = _parse_served_ids(d.pop("served_ids", UNSET))

        peer_trial = cls(
            label=label,
            gate=gate,
            sentence=sentence,
            peer=peer,
            version=version,
            settings=settings,
            primary=primary,
            unit=unit,
            start_seconds=start_seconds,
            served_ids=served_ids,
        )

        return peer_trial
