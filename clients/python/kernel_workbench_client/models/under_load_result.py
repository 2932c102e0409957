from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.environment import Environment
    from ..models.load_curve import LoadCurve
    from ..models.objective import Objective
    from ..models.recording import Recording
    from ..models.traffic import Traffic


T = TypeVar("T", bound="UnderLoadResult")


@_attrs_define
class UnderLoadResult:
    """What the load stage found: before and after under rising load, judged by the same `objectives`.

    `objectives` have limits: that of a promise relative to today follows from the median that verify measured before.
    A side is None where it was not measured; then `notes` say why. A stage that failed leaves its sentence alone.

        Attributes:
            sentence (str):
            environment (Environment | None | Unset):
            traffic (None | Traffic | Unset):
            recording (None | Recording | Unset): of the traffic; each load begins at its first line
            objectives (list[Objective] | Unset):
            before (LoadCurve | None | Unset):
            after (LoadCurve | None | Unset):
            endpoint (LoadCurve | None | Unset): by the worker, at the workload's endpoint
            choice (str | Unset): why after is served as it is, where two forms were put under load Default: ''.
            notes (list[str] | Unset):
    """

    sentence: str
    environment: Environment | None | Unset = UNSET
    traffic: None | Traffic | Unset = UNSET
    recording: None | Recording | Unset = UNSET
    objectives: list[Objective] | Unset = UNSET
    before: LoadCurve | None | Unset = UNSET
    after: LoadCurve | None | Unset = UNSET
    endpoint: LoadCurve | None | Unset = UNSET
    choice: str | Unset = ""
    notes: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.environment import Environment  # noqa: PLC0415
        from ..models.load_curve import LoadCurve  # noqa: PLC0415
        from ..models.recording import Recording  # noqa: PLC0415
        from ..models.traffic import Traffic  # noqa: PLC0415

        sentence = self.sentence

        environment: dict[str, Any] | None | Unset
        if isinstance(self.environment, Unset):
            environment = UNSET
        elif isinstance(self.environment, Environment):
            environment = self.environment.to_dict()
        else:
            environment = self.environment

        traffic: dict[str, Any] | None | Unset
        if isinstance(self.traffic, Unset):
            traffic = UNSET
        elif isinstance(self.traffic, Traffic):
            traffic = self.traffic.to_dict()
        else:
            traffic = self.traffic

        recording: dict[str, Any] | None | Unset
        if isinstance(self.recording, Unset):
            recording = UNSET
        elif isinstance(self.recording, Recording):
            recording = self.recording.to_dict()
        else:
            recording = self.recording

        objectives: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.objectives, Unset):
            objectives = []
            for objectives_item_data in self.objectives:
                objectives_item = objectives_item_data.to_dict()
                objectives.append(objectives_item)

        before: dict[str, Any] | None | Unset
        if isinstance(self.before, Unset):
            before = UNSET
        elif isinstance(self.before, LoadCurve):
            before = self.before.to_dict()
        else:
            before = self.before

        after: dict[str, Any] | None | Unset
        if isinstance(self.after, Unset):
            after = UNSET
        elif isinstance(self.after, LoadCurve):
            after = self.after.to_dict()
        else:
            after = self.after

        endpoint: dict[str, Any] | None | Unset
        if isinstance(self.endpoint, Unset):
            endpoint = UNSET
        elif isinstance(self.endpoint, LoadCurve):
            endpoint = self.endpoint.to_dict()
        else:
            endpoint = self.endpoint

        choice = self.choice

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "sentence": sentence,
            }
        )
        if environment is not UNSET:
            field_dict["environment"] = environment
        if traffic is not UNSET:
            field_dict["traffic"] = traffic
        if recording is not UNSET:
            field_dict["recording"] = recording
        if objectives is not UNSET:
            field_dict["objectives"] = objectives
        if before is not UNSET:
            field_dict["before"] = before
        if after is not UNSET:
            field_dict["after"] = after
        if endpoint is not UNSET:
            field_dict["endpoint"] = endpoint
        if choice is not UNSET:
            field_dict["choice"] = choice
        if notes is not UNSET:
            field_dict["notes"] = notes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.environment import Environment  # noqa: PLC0415
        from ..models.load_curve import LoadCurve  # noqa: PLC0415
        from ..models.objective import Objective  # noqa: PLC0415
        from ..models.recording import Recording  # noqa: PLC0415
        from ..models.traffic import Traffic  # noqa: PLC0415

        d = dict(src_dict)
        sentence = d.pop("sentence")

        def _parse_environment(data: object) -> Environment | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                environment_type_0 = Environment.from_dict(data)

                return environment_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Environment | None | Unset, data)

        environment = _parse_environment(d.pop("environment", UNSET))

        def _parse_traffic(data: object) -> None | Traffic | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                traffic_type_0 = Traffic.from_dict(data)

                return traffic_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Traffic | Unset, data)

        traffic = _parse_traffic(d.pop("traffic", UNSET))

        def _parse_recording(data: object) -> None | Recording | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                recording_type_0 = Recording.from_dict(data)

                return recording_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Recording | Unset, data)

        recording = _parse_recording(d.pop("recording", UNSET))

        _objectives = d.pop("objectives", UNSET)
        objectives: list[Objective] | Unset = UNSET
        if _objectives is not UNSET:
            objectives = []
            for objectives_item_data in _objectives:
                objectives_item = Objective.from_dict(objectives_item_data)

                objectives.append(objectives_item)

        def _parse_before(data: object) -> LoadCurve | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                before_type_0 = LoadCurve.from_dict(data)

                return before_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadCurve | None | Unset, data)

        before = _parse_before(d.pop("before", UNSET))

        def _parse_after(data: object) -> LoadCurve | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                after_type_0 = LoadCurve.from_dict(data)

                return after_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadCurve | None | Unset, data)

        after = _parse_after(d.pop("after", UNSET))

        def _parse_endpoint(data: object) -> LoadCurve | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                endpoint_type_0 = LoadCurve.from_dict(data)

                return endpoint_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadCurve | None | Unset, data)

        endpoint = _parse_endpoint(d.pop("endpoint", UNSET))

        choice = d.pop("choice", UNSET)

        notes = cast(list[str], d.pop("notes", UNSET))

        under_load_result = cls(
            sentence=sentence,
            environment=environment,
            traffic=traffic,
            recording=recording,
            objectives=objectives,
            before=before,
            after=after,
            endpoint=endpoint,
            choice=choice,
            notes=notes,
        )

        return under_load_result
