from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.objective_outcome_verdict import (
    ObjectiveOutcomeVerdict,
    check_objective_outcome_verdict,
)
from ..models.objective_outcome_verdict_before import (
    ObjectiveOutcomeVerdictBefore,
    check_objective_outcome_verdict_before,
)
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.interval import Interval
    from ..models.objective import Objective


T = TypeVar("T", bound="ObjectiveOutcome")


@_attrs_define
class ObjectiveOutcome:
    """One objective before and after: `over` of `samples` lie beyond the limit, in `requests` served batches.

    `needed` batches without a sample beyond the limit prove the percentile at 99 % confidence. Documents that lack
    `requests` counted samples. `missed_in`: processes whose own requests after miss an objective that all of them meet.
    `void`: another program used the GPU meanwhile, so there are no samples that count. `ratio`: of a promise relative
    to before, the ratio of the medians that it is judged by; no sample lies beyond a limit then, and `needed` is pairs.
    `medians` are those of the metric after, one of each process.

        Attributes:
            objective (Objective): One promise of the SLA: `metric` at `percentile` on the right side of `limit`, or its
                median relative to today.

                `at_least_faster` stands in place of a limit: the ratio of the medians before and after, above 1 when after is
                better, which for throughput means more of it.

                ttft, ttf_n, tpot, itl, e2e and batch_latency are in ms. throughput is in what the model gives per second,
                tokens/s
                or images/s, and cost_per_mtok in USD for a million of them. Unless stated, the unit becomes that of the model.
            before (float | None):
            after (float | None):
            verdict_before (ObjectiveOutcomeVerdictBefore):
            verdict (ObjectiveOutcomeVerdict):
            samples (int):
            over (int):
            needed (int):
            requests (int | None | Unset):
            missed_in (int | Unset):  Default: 0.
            void (bool | Unset):  Default: False.
            ratio (Interval | None | Unset):
            medians (list[float] | Unset):
    """

    objective: Objective
    before: float | None
    after: float | None
    verdict_before: ObjectiveOutcomeVerdictBefore
    verdict: ObjectiveOutcomeVerdict
    samples: int
    over: int
    needed: int
    requests: int | None | Unset = UNSET
    missed_in: int | Unset = 0
    void: bool | Unset = False
    ratio: Interval | None | Unset = UNSET
    medians: list[float] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.interval import Interval  # noqa: PLC0415

        objective = self.objective.to_dict()

        before: float | None
        before = self.before

        after: float | None
        after = self.after

        verdict_before: str = self.verdict_before

        verdict: str = self.verdict

        samples = self.samples

        over = self.over

        needed = self.needed

        requests: int | None | Unset
        if isinstance(self.requests, Unset):
            requests = UNSET
        else:
            requests = self.requests

        missed_in = self.missed_in

        void = self.void

        ratio: dict[str, Any] | None | Unset
        if isinstance(self.ratio, Unset):
            ratio = UNSET
        elif isinstance(self.ratio, Interval):
            ratio = self.ratio.to_dict()
        else:
            ratio = self.ratio

        medians: list[float] | Unset = UNSET
        if not isinstance(self.medians, Unset):
            medians = self.medians

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "objective": objective,
                "before": before,
                "after": after,
                "verdict_before": verdict_before,
                "verdict": verdict,
                "samples": samples,
                "over": over,
                "needed": needed,
            }
        )
        if requests is not UNSET:
            field_dict["requests"] = requests
        if missed_in is not UNSET:
            field_dict["missed_in"] = missed_in
        if void is not UNSET:
            field_dict["void"] = void
        if ratio is not UNSET:
            field_dict["ratio"] = ratio
        if medians is not UNSET:
            field_dict["medians"] = medians

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.objective import Objective  # noqa: PLC0415

        d = dict(src_dict)
        objective = Objective.from_dict(d.pop("objective"))

        def _parse_before(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        before = _parse_before(d.pop("before"))

        def _parse_after(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        after = _parse_after(d.pop("after"))

        verdict_before = check_objective_outcome_verdict_before(d.pop("verdict_before"))

        verdict = check_objective_outcome_verdict(d.pop("verdict"))

        samples = d.pop("samples")

        over = d.pop("over")

        needed = d.pop("needed")

        def _parse_requests(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        requests = _parse_requests(d.pop("requests", UNSET))

        missed_in = d.pop("missed_in", UNSET)

        void = d.pop("void", UNSET)

        def _parse_ratio(data: object) -> Interval | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                ratio_type_0 = Interval.from_dict(data)

                return ratio_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Interval | None | Unset, data)

        ratio = _parse_ratio(d.pop("ratio", UNSET))

        medians = cast(list[float], d.pop("medians", UNSET))

        objective_outcome = cls(
            objective=objective,
            before=before,
            after=after,
            verdict_before=verdict_before,
            verdict=verdict,
            samples=samples,
            over=over,
            needed=needed,
            requests=requests,
            missed_in=missed_in,
            void=void,
            ratio=ratio,
            medians=medians,
        )

        return objective_outcome
