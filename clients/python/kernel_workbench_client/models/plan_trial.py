from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.plan_trial_keeps_type_0 import (
    PlanTrialKeepsType0,
    check_plan_trial_keeps_type_0,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval
    from ..models.plan_trial_plan import PlanTrialPlan


T = TypeVar("T", bound="PlanTrial")


@_attrs_define
class PlanTrial:
    """A whole-model plan that was tried: a quick measurement, and why it was or was not taken.

    Attributes:
        label (str):
        plan (PlanTrialPlan):
        gate (str):
        summary (str | Unset): what the plan runs, in a sentence Default: ''.
        primary (Interval | None | Unset): the first objective's metric, quick measurement
        unit (str | Unset):  Default: 'ms'.
        tokens_per_second (float | None | Unset): in the quick measurement
        keeps (None | PlanTrialKeepsType0 | Unset): on the promises with a limit, in the quick measurement
        build_seconds (float | None | Unset):
        chosen (bool | Unset):  Default: False.
        reason (str | Unset):  Default: ''.
        notes (list[str] | Unset): what was timed in the whole model to find the plan's parts
    """

    label: str
    plan: PlanTrialPlan
    gate: str
    summary: str | Unset = ""
    primary: Interval | None | Unset = UNSET
    unit: str | Unset = "ms"
    tokens_per_second: float | None | Unset = UNSET
    keeps: None | PlanTrialKeepsType0 | Unset = UNSET
    build_seconds: float | None | Unset = UNSET
    chosen: bool | Unset = False
    reason: str | Unset = ""
    notes: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415

        label = self.label

        plan = self.plan.to_dict()

        gate = self.gate

        summary = self.summary

        primary: dict[str, Any] | None | Unset
        if isinstance(self.primary, Unset):
            primary = UNSET
        elif isinstance(self.primary, Interval):
            primary = self.primary.to_dict()
        else:
            primary = self.primary

        unit = self.unit

        tokens_per_second: float | None | Unset
        if isinstance(self.tokens_per_second, Unset):
            tokens_per_second = UNSET
        else:
            tokens_per_second = self.tokens_per_second

        keeps: None | str | Unset
        if isinstance(self.keeps, Unset):
            keeps = UNSET
        elif isinstance(self.keeps, str):
            keeps = self.keeps
        else:
            keeps = self.keeps

        build_seconds: float | None | Unset
        if isinstance(self.build_seconds, Unset):
            build_seconds = UNSET
        else:
            build_seconds = self.build_seconds

        chosen = self.chosen

        reason = self.reason

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "label": label,
                "plan": plan,
                "gate": gate,
            }
        )
        if summary is not UNSET:
            field_dict["summary"] = summary
        if primary is not UNSET:
            field_dict["primary"] = primary
        if unit is not UNSET:
            field_dict["unit"] = unit
        if tokens_per_second is not UNSET:
            field_dict["tokens_per_second"] = tokens_per_second
        if keeps is not UNSET:
            field_dict["keeps"] = keeps
        if build_seconds is not UNSET:
            field_dict["build_seconds"] = build_seconds
        if chosen is not UNSET:
            field_dict["chosen"] = chosen
        if reason is not UNSET:
            field_dict["reason"] = reason
        if notes is not UNSET:
            field_dict["notes"] = notes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.plan_trial_plan import PlanTrialPlan  # noqa: PLC0415

        d = dict(src_dict)
        label = d.pop("label")

        plan = PlanTrialPlan.from_dict(d.pop("plan"))

        gate = d.pop("gate")

        summary = d.pop("summary", UNSET)

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

        def _parse_tokens_per_second(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        tokens_per_second = _parse_tokens_per_second(d.pop("tokens_per_second", UNSET))

        def _parse_keeps(data: object) -> None | PlanTrialKeepsType0 | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                keeps_type_0 = check_plan_trial_keeps_type_0(data)

                return keeps_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PlanTrialKeepsType0 | Unset, data)

        keeps = _parse_keeps(d.pop("keeps", UNSET))

        def _parse_build_seconds(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        build_seconds = _parse_build_seconds(d.pop("build_seconds", UNSET))

        chosen = d.pop("chosen", UNSET)

        reason = d.pop("reason", UNSET)

        notes = cast(list[str], d.pop("notes", UNSET))

        plan_trial = cls(
            label=label,
            plan=plan,
            gate=gate,
            summary=summary,
            primary=primary,
            unit=unit,
            tokens_per_second=tokens_per_second,
            keeps=keeps,
            build_seconds=build_seconds,
            chosen=chosen,
            reason=reason,
            notes=notes,
        )

        return plan_trial
