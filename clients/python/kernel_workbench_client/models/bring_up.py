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

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.bring_up_stopped import BringUpStopped
    from ..models.gpu import Gpu
    from ..models.machine import Machine
    from ..models.machine_ceilings import MachineCeilings
    from ..models.machine_limits import MachineLimits
    from ..models.model_cost import ModelCost
    from ..models.race import Race
    from ..models.variant_proofs import VariantProofs


T = TypeVar("T", bound="BringUp")


@_attrs_define
class BringUp:
    """Everything that a bring-up found.

    `stopped` holds a sentence for each step whose process ended or took too long; `left_out` names the steps that there
    was no time for. `limits` is null where their step gave nothing.

        Attributes:
            environment (Machine): The device, its libraries and the commit that it was measured with; `at` is when. Memory
                in GiB.
            entry (Gpu): A GPU class. Rates in TFLOP/s and TB/s, power in W, memory in GiB. `sm` is compute capability × 10.

                `matrix_flop_per_clock` is what one SM's matrix units do in bf16 per clock; with the highest SM clock it bounds
                what any kernel can ever reach. The CPU has no such figures: 0 means unknown. `source` tells where the rates are
                from: `datasheet`, or `measured` in bursts by the bring-up.
            ceilings (MachineCeilings): The rates under settled clocks, those of single calls after pauses as `burst`, and
                an empty launch in µs.
            quick (bool):
            stranger (bool):
            minutes (float):
            proofs (list[VariantProofs]):
            races (list[Race]):
            models (list[ModelCost]):
            next_steps (list[str]):
            stopped (BringUpStopped):
            left_out (list[str]):
            version (Literal[1] | Unset):  Default: 1.
            limits (MachineLimits | None | Unset):
    """

    environment: Machine
    entry: Gpu
    ceilings: MachineCeilings
    quick: bool
    stranger: bool
    minutes: float
    proofs: list[VariantProofs]
    races: list[Race]
    models: list[ModelCost]
    next_steps: list[str]
    stopped: BringUpStopped
    left_out: list[str]
    version: Literal[1] | Unset = 1
    limits: MachineLimits | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.machine_limits import MachineLimits  # noqa: PLC0415

        environment = self.environment.to_dict()

        entry = self.entry.to_dict()

        ceilings = self.ceilings.to_dict()

        quick = self.quick

        stranger = self.stranger

        minutes = self.minutes

        proofs = []
        for proofs_item_data in self.proofs:
            proofs_item = proofs_item_data.to_dict()
            proofs.append(proofs_item)

        races = []
        for races_item_data in self.races:
            races_item = races_item_data.to_dict()
            races.append(races_item)

        models = []
        for models_item_data in self.models:
            models_item = models_item_data.to_dict()
            models.append(models_item)

        next_steps = self.next_steps

        stopped = self.stopped.to_dict()

        left_out = self.left_out

        version = self.version

        limits: dict[str, Any] | None | Unset
        if isinstance(self.limits, Unset):
            limits = UNSET
        elif isinstance(self.limits, MachineLimits):
            limits = self.limits.to_dict()
        else:
            limits = self.limits

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "entry": entry,
                "ceilings": ceilings,
                "quick": quick,
                "stranger": stranger,
                "minutes": minutes,
                "proofs": proofs,
                "races": races,
                "models": models,
                "next_steps": next_steps,
                "stopped": stopped,
                "left_out": left_out,
            }
        )
        if version is not UNSET:
            field_dict["version"] = version
        if limits is not UNSET:
            field_dict["limits"] = limits

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.bring_up_stopped import BringUpStopped  # noqa: PLC0415
        from ..models.gpu import Gpu  # noqa: PLC0415
        from ..models.machine import Machine  # noqa: PLC0415
        from ..models.machine_ceilings import MachineCeilings  # noqa: PLC0415
        from ..models.machine_limits import MachineLimits  # noqa: PLC0415
        from ..models.model_cost import ModelCost  # noqa: PLC0415
        from ..models.race import Race  # noqa: PLC0415
        from ..models.variant_proofs import VariantProofs  # noqa: PLC0415

        d = dict(src_dict)
        environment = Machine.from_dict(d.pop("environment"))

        entry = Gpu.from_dict(d.pop("entry"))

        ceilings = MachineCeilings.from_dict(d.pop("ceilings"))

        quick = d.pop("quick")

        stranger = d.pop("stranger")

        minutes = d.pop("minutes")

        proofs = []
        _proofs = d.pop("proofs")
        for proofs_item_data in _proofs:
            proofs_item = VariantProofs.from_dict(proofs_item_data)

            proofs.append(proofs_item)

        races = []
        _races = d.pop("races")
        for races_item_data in _races:
            races_item = Race.from_dict(races_item_data)

            races.append(races_item)

        models = []
        _models = d.pop("models")
        for models_item_data in _models:
            models_item = ModelCost.from_dict(models_item_data)

            models.append(models_item)

        next_steps = cast(list[str], d.pop("next_steps"))

        stopped = BringUpStopped.from_dict(d.pop("stopped"))

        left_out = cast(list[str], d.pop("left_out"))

        version = cast(Literal[1] | Unset, d.pop("version", UNSET))
        if version != 1 and not isinstance(version, Unset):
            raise ValueError(f"version must match const 1, got '{version}'")

        def _parse_limits(data: object) -> MachineLimits | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                limits_type_0 = MachineLimits.from_dict(data)

                return limits_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MachineLimits | None | Unset, data)

        limits = _parse_limits(d.pop("limits", UNSET))

        bring_up = cls(
            environment=environment,
            entry=entry,
            ceilings=ceilings,
            quick=quick,
            stranger=stranger,
            minutes=minutes,
            proofs=proofs,
            races=races,
            models=models,
            next_steps=next_steps,
            stopped=stopped,
            left_out=left_out,
            version=version,
            limits=limits,
        )

        return bring_up
