from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.admit_result import AdmitResult
    from ..models.baseline_result import BaselineResult
    from ..models.compose_result import ComposeResult
    from ..models.explore_result import ExploreResult
    from ..models.price_result import PriceResult
    from ..models.profile_result import ProfileResult
    from ..models.report_result import ReportResult
    from ..models.under_load_result import UnderLoadResult
    from ..models.verify_result import VerifyResult


T = TypeVar("T", bound="Results")


@_attrs_define
class Results:
    """The stages done so far.

    Attributes:
        admit (AdmitResult | None | Unset):
        baseline (BaselineResult | None | Unset):
        profile (None | ProfileResult | Unset):
        explore (ExploreResult | None | Unset):
        compose (ComposeResult | None | Unset):
        verify (None | Unset | VerifyResult):
        load (None | UnderLoadResult | Unset):
        price (None | PriceResult | Unset):
        report (None | ReportResult | Unset):
    """

    admit: AdmitResult | None | Unset = UNSET
    baseline: BaselineResult | None | Unset = UNSET
    profile: None | ProfileResult | Unset = UNSET
    explore: ExploreResult | None | Unset = UNSET
    compose: ComposeResult | None | Unset = UNSET
    verify: None | Unset | VerifyResult = UNSET
    load: None | UnderLoadResult | Unset = UNSET
    price: None | PriceResult | Unset = UNSET
    report: None | ReportResult | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.admit_result import AdmitResult  # noqa: PLC0415
        from ..models.baseline_result import BaselineResult  # noqa: PLC0415
        from ..models.compose_result import ComposeResult  # noqa: PLC0415
        from ..models.explore_result import ExploreResult  # noqa: PLC0415
        from ..models.price_result import PriceResult  # noqa: PLC0415
        from ..models.profile_result import ProfileResult  # noqa: PLC0415
        from ..models.report_result import ReportResult  # noqa: PLC0415
        from ..models.under_load_result import UnderLoadResult  # noqa: PLC0415
        from ..models.verify_result import VerifyResult  # noqa: PLC0415

        admit: dict[str, Any] | None | Unset
        if isinstance(self.admit, Unset):
            admit = UNSET
        elif isinstance(self.admit, AdmitResult):
            admit = self.admit.to_dict()
        else:
            admit = self.admit

        baseline: dict[str, Any] | None | Unset
        if isinstance(self.baseline, Unset):
            baseline = UNSET
        elif isinstance(self.baseline, BaselineResult):
            baseline = self.baseline.to_dict()
        else:
            baseline = self.baseline

        profile: dict[str, Any] | None | Unset
        if isinstance(self.profile, Unset):
            profile = UNSET
        elif isinstance(self.profile, ProfileResult):
            profile = self.profile.to_dict()
        else:
            profile = self.profile

        explore: dict[str, Any] | None | Unset
        if isinstance(self.explore, Unset):
            explore = UNSET
        elif isinstance(self.explore, ExploreResult):
            explore = self.explore.to_dict()
        else:
            explore = self.explore

        compose: dict[str, Any] | None | Unset
        if isinstance(self.compose, Unset):
            compose = UNSET
        elif isinstance(self.compose, ComposeResult):
            compose = self.compose.to_dict()
        else:
            compose = self.compose

        verify: dict[str, Any] | None | Unset
        if isinstance(self.verify, Unset):
            verify = UNSET
        elif isinstance(self.verify, VerifyResult):
            verify = self.verify.to_dict()
        else:
            verify = self.verify

        load: dict[str, Any] | None | Unset
        if isinstance(self.load, Unset):
            load = UNSET
        elif isinstance(self.load, UnderLoadResult):
            load = self.load.to_dict()
        else:
            load = self.load

        price: dict[str, Any] | None | Unset
        if isinstance(self.price, Unset):
            price = UNSET
        elif isinstance(self.price, PriceResult):
            price = self.price.to_dict()
        else:
            price = self.price

        report: dict[str, Any] | None | Unset
        if isinstance(self.report, Unset):
            report = UNSET
        elif isinstance(self.report, ReportResult):
            report = self.report.to_dict()
        else:
            report = self.report

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if admit is not UNSET:
            field_dict["admit"] = admit
        if baseline is not UNSET:
            field_dict["baseline"] = baseline
        if profile is not UNSET:
            field_dict["profile"] = profile
        if explore is not UNSET:
            field_dict["explore"] = explore
        if compose is not UNSET:
            field_dict["compose"] = compose
        if verify is not UNSET:
            field_dict["verify"] = verify
        if load is not UNSET:
            field_dict["load"] = load
        if price is not UNSET:
            field_dict["price"] = price
        if report is not UNSET:
            field_dict["report"] = report

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.admit_result import AdmitResult  # noqa: PLC0415
        from ..models.baseline_result import BaselineResult  # noqa: PLC0415
        from ..models.compose_result import ComposeResult  # noqa: PLC0415
        from ..models.explore_result import ExploreResult  # noqa: PLC0415
        from ..models.price_result import PriceResult  # noqa: PLC0415
        from ..models.profile_result import ProfileResult  # noqa: PLC0415
        from ..models.report_result import ReportResult  # noqa: PLC0415
        from ..models.under_load_result import UnderLoadResult  # noqa: PLC0415
        from ..models.verify_result import VerifyResult  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_admit(data: object) -> AdmitResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                admit_type_0 = AdmitResult.from_dict(data)

                return admit_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(AdmitResult | None | Unset, data)

        admit = _parse_admit(d.pop("admit", UNSET))

        def _parse_baseline(data: object) -> BaselineResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                baseline_type_0 = BaselineResult.from_dict(data)

                return baseline_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(BaselineResult | None | Unset, data)

        baseline = _parse_baseline(d.pop("baseline", UNSET))

        def _parse_profile(data: object) -> None | ProfileResult | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                profile_type_0 = ProfileResult.from_dict(data)

                return profile_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ProfileResult | Unset, data)

        profile = _parse_profile(d.pop("profile", UNSET))

        def _parse_explore(data: object) -> ExploreResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                explore_type_0 = ExploreResult.from_dict(data)

                return explore_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ExploreResult | None | Unset, data)

        explore = _parse_explore(d.pop("explore", UNSET))

        def _parse_compose(data: object) -> ComposeResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                compose_type_0 = ComposeResult.from_dict(data)

                return compose_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(ComposeResult | None | Unset, data)

        compose = _parse_compose(d.pop("compose", UNSET))

        def _parse_verify(data: object) -> None | Unset | VerifyResult:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                verify_type_0 = VerifyResult.from_dict(data)

                return verify_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Unset | VerifyResult, data)

        verify = _parse_verify(d.pop("verify", UNSET))

        def _parse_load(data: object) -> None | UnderLoadResult | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                load_type_0 = UnderLoadResult.from_dict(data)

                return load_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | UnderLoadResult | Unset, data)

        load = _parse_load(d.pop("load", UNSET))

        def _parse_price(data: object) -> None | PriceResult | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                price_type_0 = PriceResult.from_dict(data)

                return price_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | PriceResult | Unset, data)

        price = _parse_price(d.pop("price", UNSET))

        def _parse_report(data: object) -> None | ReportResult | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                report_type_0 = ReportResult.from_dict(data)

                return report_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ReportResult | Unset, data)

        report = _parse_report(d.pop("report", UNSET))

        results = cls(
            admit=admit,
            baseline=baseline,
            profile=profile,
            explore=explore,
            compose=compose,
            verify=verify,
            load=load,
            price=price,
            report=report,
        )

        return results
