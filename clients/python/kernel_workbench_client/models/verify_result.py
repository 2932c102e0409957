from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.verify_result_counted import (
    VerifyResultCounted,
    check_verify_result_counted,
)
from ..models.verify_result_verdict import (
    VerifyResultVerdict,
    check_verify_result_verdict,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.distribution import Distribution
    from ..models.endpoint_result import EndpointResult
    from ..models.environment import Environment
    from ..models.objective_outcome import ObjectiveOutcome
    from ..models.plan_check import PlanCheck
    from ..models.plan_profile import PlanProfile
    from ..models.quality import Quality
    from ..models.served_ids import ServedIds
    from ..models.speedup import Speedup
    from ..models.verify_result_plan import VerifyResultPlan


T = TypeVar("T", bound="VerifyResult")


@_attrs_define
class VerifyResult:
    """The plan before and after. Where no plan was confirmed, `recommended` is false and `plan` is what runs today:
    both sides are then its one measurement, without a speedup. `checks` are the plans that were measured, in turn.
    `refusal` says why the composed plan's figures do not count: it serves other ids, or beats the limits of its chip.

        Attributes:
            environment (Environment): The device, the libraries and the commit that a figure was measured with; `at` is ISO
                8601 UTC.
            plan (VerifyResultPlan):
            before (list[Distribution]):
            after (list[Distribution]):
            tokens_per_second_before (float):
            tokens_per_second_after (float):
            speedup (None | Speedup):
            outcomes (list[ObjectiveOutcome]):
            quality (None | Quality):
            verdict (VerifyResultVerdict):
            sentence (str):
            not_served (str | Unset): why the workbench's own server cannot serve the plan Default: ''.
            compared_with (str | Unset): what the values before are called Default: 'before'.
            goodput_after (float | None | Unset):
            recommended (bool | Unset):  Default: True.
            checks (list[PlanCheck] | Unset):
            served_ids (None | ServedIds | Unset):
            refusal (str | Unset):  Default: ''.
            profile (None | PlanProfile | Unset): where the plan spends its time
            no_profile (str | Unset): why there is no profile of the plan, where it was confirmed Default: ''.
            counted (VerifyResultCounted | Unset): what the rates per second count Default: 'tokens'.
            endpoint (EndpointResult | None | Unset): by the worker, at the workload's endpoint
    """

    environment: Environment
    plan: VerifyResultPlan
    before: list[Distribution]
    after: list[Distribution]
    tokens_per_second_before: float
    tokens_per_second_after: float
    speedup: None | Speedup
    outcomes: list[ObjectiveOutcome]
    quality: None | Quality
    verdict: VerifyResultVerdict
    sentence: str
    not_served: str | Unset = ""
    compared_with: str | Unset = "before"
    goodput_after: float | None | Unset = UNSET
    recommended: bool | Unset = True
    checks: list[PlanCheck] | Unset = UNSET
    served_ids: None | ServedIds | Unset = UNSET
    refusal: str | Unset = ""
    profile: None | PlanProfile | Unset = UNSET
    no_profile: str | Unset = ""
    counted: VerifyResultCounted | Unset = "tokens"
    endpoint: EndpointResult | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.endpoint_result import EndpointResult  # noqa: PLC0415
        from ..models.plan_profile import PlanProfile  # noqa: PLC0415
        from ..models.quality import Quality  # noqa: PLC0415
        from ..models.served_ids import ServedIds  # noqa: PLC0415
        from ..models.speedup import Speedup  # noqa: PLC0415

        environment = self.environment.to_dict()

        plan = self.plan.to_dict()

        before = []
        for before_item_data in self.before:
            before_item = before_item_data.to_dict()
            before.append(before_item)

        after = []
        for after_item_data in self.after:
            after_item = after_item_data.to_dict()
            after.append(after_item)

        tokens_per_second_before = self.tokens_per_second_before

        tokens_per_second_after = self.tokens_per_second_after

        speedup: dict[str, Any] | None
        if isinstance(self.speedup, Speedup):
            speedup = self.speedup.to_dict()
        else:
            speedup = self.speedup

        outcomes = []
        for outcomes_item_data in self.outcomes:
            outcomes_item = outcomes_item_data.to_dict()
            outcomes.append(outcomes_item)

        quality: dict[str, Any] | None
        if isinstance(self.quality, Quality):
            quality = self.quality.to_dict()
        else:
            quality = self.quality

        verdict: str = self.verdict

        sentence = self.sentence

        not_served = self.not_served

        compared_with = self.compared_with

        goodput_after: float | None | Unset
        if isinstance(self.goodput_after, Unset):
            goodput_after = UNSET
        else:
            goodput_after = self.goodput_after

        recommended = self.recommended

        checks: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.checks, Unset):
            checks = []
            for checks_item_data in self.checks:
                checks_item = checks_item_data.to_dict()
                checks.append(checks_item)

        served_ids: dict[str, Any] | None | Unset
        if isinstance(self.served_ids, Unset):
            served_ids = UNSET
        elif isinstance(self.served_ids, ServedIds):
            served_ids = self.served_ids.to_dict()
        else:
            served_ids = self.served_ids

        refusal = self.refusal

        profile: dict[str, Any] | None | Unset
        if isinstance(self.profile, Unset):
            profile = UNSET
        elif isinstance(self.profile, PlanProfile):
            profile = self.profile.to_dict()
        else:
            profile = self.profile

        no_profile = self.no_profile

        counted: str | Unset = UNSET
        if not isinstance(self.counted, Unset):
            counted = self.counted

        endpoint: dict[str, Any] | None | Unset
        if isinstance(self.endpoint, Unset):
            endpoint = UNSET
        elif isinstance(self.endpoint, EndpointResult):
            endpoint = self.endpoint.to_dict()
        else:
            endpoint = self.endpoint

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "plan": plan,
                "before": before,
                "after": after,
                "tokens_per_second_before": tokens_per_second_before,
                "tokens_per_second_after": tokens_per_second_after,
                "speedup": speedup,
                "outcomes": outcomes,
                "quality": quality,
                "verdict": verdict,
                "sentence": sentence,
            }
        )
        if not_served is not UNSET:
            field_dict["not_served"] = not_served
        if compared_with is not UNSET:
            field_dict["compared_with"] = compared_with
        if goodput_after is not UNSET:
            field_dict["goodput_after"] = goodput_after
        if recommended is not UNSET:
            field_dict["recommended"] = recommended
        if checks is not UNSET:
            field_dict["checks"] = checks
        if served_ids is not UNSET:
            field_dict["served_ids"] = served_ids
        if refusal is not UNSET:
            field_dict["refusal"] = refusal
        if profile is not UNSET:
            field_dict["profile"] = profile
        if no_profile is not UNSET:
            field_dict["no_profile"] = no_profile
        if counted is not UNSET:
            field_dict["counted"] = counted
        if endpoint is not UNSET:
            field_dict["endpoint"] = endpoint

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.distribution import Distribution  # noqa: PLC0415
        from ..models.endpoint_result import EndpointResult  # noqa: PLC0415
        from ..models.environment import Environment  # noqa: PLC0415
        from ..models.objective_outcome import ObjectiveOutcome  # noqa: PLC0415
        from ..models.plan_check import PlanCheck  # noqa: PLC0415
        from ..models.plan_profile import PlanProfile  # noqa: PLC0415
        from ..models.quality import Quality  # noqa: PLC0415
        from ..models.served_ids import ServedIds  # noqa: PLC0415
        from ..models.speedup import Speedup  # noqa: PLC0415
        from ..models.verify_result_plan import VerifyResultPlan  # noqa: PLC0415

        d = dict(src_dict)
        environment = Environment.from_dict(d.pop("environment"))

        plan = VerifyResultPlan.from_dict(d.pop("plan"))

        before = []
        _before = d.pop("before")
        for before_item_data in _before:
            before_item = Distribution.from_dict(before_item_data)

            before.append(before_item)

        after = []
        _after = d.pop("after")
        for after_item_data in _after:
            after_item = Distribution.from_dict(after_item_data)

            after.append(after_item)

        tokens_per_second_before = d.pop("tokens_per_second_before")

        tokens_per_second_after = d.pop("tokens_per_second_after")

        def _parse_speedup(data: object) -> None | Speedup:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                speedup_type_0 = Speedup.from_dict(data)

                return speedup_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Speedup, data)

        speedup = _parse_speedup(d.pop("speedup"))

        outcomes = []
        _outcomes = d.pop("outcomes")
        for outcomes_item_data in _outcomes:
            outcomes_item = ObjectiveOutcome.from_dict(outcomes_item_data)

            outcomes.append(outcomes_item)

        def _parse_quality(data: object) -> None | Quality:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                quality_type_0 = Quality.from_dict(data)

                return quality_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Quality, data)

        quality = _parse_quality(d.pop("quality"))

        verdict = check_verify_result_verdict(d.pop("verdict"))

        sentence = d.pop("sentence")

        not_served = d.pop("not_served", UNSET)

        compared_with = d.pop("compared_with", UNSET)

        def _parse_goodput_after(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        goodput_after = _parse_goodput_after(d.pop("goodput_after", UNSET))

        recommended = d.pop("recommended", UNSET)

        _checks = d.pop("checks", UNSET)
        checks: list[PlanCheck] | Unset = UNSET
        if _checks is not UNSET:
            checks = []
            for checks_item_data in _checks:
                checks_item = PlanCheck.from_dict(checks_item_data)

                checks.append(checks_item)

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

        refusal = d.pop("refusal", UNSET)

        def _parse_profile(data: object) -> None | PlanProfile | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                profile_type_0 = PlanProfile.from_dict(data)

                return profile_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PlanProfile | Unset, data)

        profile = _parse_profile(d.pop("profile", UNSET))

        no_profile = d.pop("no_profile", UNSET)

        _counted = d.pop("counted", UNSET)
        counted: VerifyResultCounted | Unset
        if isinstance(_counted, Unset):
            counted = UNSET
        else:
            counted = check_verify_result_counted(_counted)

        def _parse_endpoint(data: object) -> EndpointResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                endpoint_type_0 = EndpointResult.from_dict(data)

                return endpoint_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(EndpointResult | None | Unset, data)

        endpoint = _parse_endpoint(d.pop("endpoint", UNSET))

        verify_result = cls(
            environment=environment,
            plan=plan,
            before=before,
            after=after,
            tokens_per_second_before=tokens_per_second_before,
            tokens_per_second_after=tokens_per_second_after,
            speedup=speedup,
            outcomes=outcomes,
            quality=quality,
            verdict=verdict,
            sentence=sentence,
            not_served=not_served,
            compared_with=compared_with,
            goodput_after=goodput_after,
            recommended=recommended,
            checks=checks,
            served_ids=served_ids,
            refusal=refusal,
            profile=profile,
            no_profile=no_profile,
            counted=counted,
            endpoint=endpoint,
        )

        return verify_result
