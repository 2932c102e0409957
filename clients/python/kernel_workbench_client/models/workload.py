from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..models.workload_baseline_runner import (
    WorkloadBaselineRunner,
    check_workload_baseline_runner,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.constraints import Constraints
    from ..models.deployment import Deployment
    from ..models.endpoint import Endpoint
    from ..models.load_search import LoadSearch
    from ..models.objective import Objective
    from ..models.traffic import Traffic


T = TypeVar("T", bound="Workload")


@_attrs_define
class Workload:
    """An SLA together with the model it is about.

    `model` is the name of a catalogue entry, or a digest of an uploaded model: the content digest names exactly one,
    and the model digest the newest that has it.

        Attributes:
            objectives (list[Objective]):
            model (str):
            version (Literal[1] | Unset):  Default: 1.
            name (str | Unset):  Default: ''.
            traffic (Traffic | Unset): How long requests are, when they arrive, and how their users behave.

                `prompt_tokens`, `output_tokens`, `batch` and `concurrency` describe equal requests in a closed loop, which is
                what
                a run of the workbench verifies. The other fields are for its load stage and for `workbench measure`; see
                `only_under_load`.
            load (LoadSearch | None | Unset): a run measures no load unless stated
            constraints (Constraints | Unset): Limits of the optimisation: GPU classes, precisions, excluded variants, which
                plan is preferred, minutes.
            baseline_runner (WorkloadBaselineRunner | Unset): what runs today: transformers, eager or under torch.compile;
                vllm, before under load, is a server of vLLM's that the worker starts Default: 'eager'.
            endpoint (Endpoint | None | Unset): a server of yours, measured as before beside the baseline runner
            present (Deployment | None | Unset):
            duty_cycle (float | Unset): share of the hour the GPU serves this traffic Default: 1.0.
            quality_text (str | Unset): text that quality is measured on: plain, or JSON Lines with text, or with a chat's
                messages Default: ''.
    """

    objectives: list[Objective]
    model: str
    version: Literal[1] | Unset = 1
    name: str | Unset = ""
    traffic: Traffic | Unset = UNSET
    load: LoadSearch | None | Unset = UNSET
    constraints: Constraints | Unset = UNSET
    baseline_runner: WorkloadBaselineRunner | Unset = "eager"
    endpoint: Endpoint | None | Unset = UNSET
    present: Deployment | None | Unset = UNSET
    duty_cycle: float | Unset = 1.0
    quality_text: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        from ..models.deployment import Deployment  # noqa: PLC0415
        from ..models.endpoint import Endpoint  # noqa: PLC0415
        from ..models.load_search import LoadSearch  # noqa: PLC0415

        objectives = []
        for objectives_item_data in self.objectives:
            objectives_item = objectives_item_data.to_dict()
            objectives.append(objectives_item)

        model = self.model

        version = self.version

        name = self.name

        traffic: dict[str, Any] | Unset = UNSET
        if not isinstance(self.traffic, Unset):
            traffic = self.traffic.to_dict()

        load: dict[str, Any] | None | Unset
        if isinstance(self.load, Unset):
            load = UNSET
        elif isinstance(self.load, LoadSearch):
            load = self.load.to_dict()
        else:
            load = self.load

        constraints: dict[str, Any] | Unset = UNSET
        if not isinstance(self.constraints, Unset):
            constraints = self.constraints.to_dict()

        baseline_runner: str | Unset = UNSET
        if not isinstance(self.baseline_runner, Unset):
            baseline_runner = self.baseline_runner

        endpoint: dict[str, Any] | None | Unset
        if isinstance(self.endpoint, Unset):
            endpoint = UNSET
        elif isinstance(self.endpoint, Endpoint):
            endpoint = self.endpoint.to_dict()
        else:
            endpoint = self.endpoint

        present: dict[str, Any] | None | Unset
        if isinstance(self.present, Unset):
            present = UNSET
        elif isinstance(self.present, Deployment):
            present = self.present.to_dict()
        else:
            present = self.present

        duty_cycle = self.duty_cycle

        quality_text = self.quality_text

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "objectives": objectives,
                "model": model,
            }
        )
        if version is not UNSET:
            field_dict["version"] = version
        if name is not UNSET:
            field_dict["name"] = name
        if traffic is not UNSET:
            field_dict["traffic"] = traffic
        if load is not UNSET:
            field_dict["load"] = load
        if constraints is not UNSET:
            field_dict["constraints"] = constraints
        if baseline_runner is not UNSET:
            field_dict["baseline_runner"] = baseline_runner
        if endpoint is not UNSET:
            field_dict["endpoint"] = endpoint
        if present is not UNSET:
            field_dict["present"] = present
        if duty_cycle is not UNSET:
            field_dict["duty_cycle"] = duty_cycle
        if quality_text is not UNSET:
            field_dict["quality_text"] = quality_text

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.constraints import Constraints  # noqa: PLC0415
        from ..models.deployment import Deployment  # noqa: PLC0415
        from ..models.endpoint import Endpoint  # noqa: PLC0415
        from ..models.load_search import LoadSearch  # noqa: PLC0415
        from ..models.objective import Objective  # noqa: PLC0415
        from ..models.traffic import Traffic  # noqa: PLC0415

        d = dict(src_dict)
        objectives = []
        _objectives = d.pop("objectives")
        for objectives_item_data in _objectives:
            objectives_item = Objective.from_dict(objectives_item_data)

            objectives.append(objectives_item)

        model = d.pop("model")

        version = cast(Literal[1] | Unset, d.pop("version", UNSET))
        if version != 1 and not isinstance(version, Unset):
            raise ValueError(f"version must match const 1, got '{version}'")

        name = d.pop("name", UNSET)

        _traffic = d.pop("traffic", UNSET)
        traffic: Traffic | Unset
        if isinstance(_traffic, Unset):
            traffic = UNSET
        else:
            traffic = Traffic.from_dict(_traffic)

        def _parse_load(data: object) -> LoadSearch | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                load_type_0 = LoadSearch.from_dict(data)

                return load_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadSearch | None | Unset, data)

        load = _parse_load(d.pop("load", UNSET))

        _constraints = d.pop("constraints", UNSET)
        constraints: Constraints | Unset
        if isinstance(_constraints, Unset):
            constraints = UNSET
        else:
            constraints = Constraints.from_dict(_constraints)

        _baseline_runner = d.pop("baseline_runner", UNSET)
        baseline_runner: WorkloadBaselineRunner | Unset
        if isinstance(_baseline_runner, Unset):
            baseline_runner = UNSET
        else:
            baseline_runner = check_workload_baseline_runner(_baseline_runner)

        def _parse_endpoint(data: object) -> Endpoint | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                endpoint_type_0 = Endpoint.from_dict(data)

                return endpoint_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Endpoint | None | Unset, data)

        endpoint = _parse_endpoint(d.pop("endpoint", UNSET))

        def _parse_present(data: object) -> Deployment | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                present_type_0 = Deployment.from_dict(data)

                return present_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Deployment | None | Unset, data)

        present = _parse_present(d.pop("present", UNSET))

        duty_cycle = d.pop("duty_cycle", UNSET)

        quality_text = d.pop("quality_text", UNSET)

        workload = cls(
            objectives=objectives,
            model=model,
            version=version,
            name=name,
            traffic=traffic,
            load=load,
            constraints=constraints,
            baseline_runner=baseline_runner,
            endpoint=endpoint,
            present=present,
            duty_cycle=duty_cycle,
            quality_text=quality_text,
        )

        return workload
