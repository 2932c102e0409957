from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.load_outcome_verdict import LoadOutcomeVerdict, check_load_outcome_verdict
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.objective import Objective


T = TypeVar("T", bound="LoadOutcome")


@_attrs_define
class LoadOutcome:
    """One objective: its value, and of how many requests any sample lies beyond the limit. Failed requests do.

    Attributes:
        objective (Objective): One promise of the SLA: `metric` at `percentile` on the right side of `limit`, or its
            median relative to today.

            `at_least_faster` stands in place of a limit: the ratio of the medians before and after, above 1 when after is
            better, which for throughput means more of it.

            ttft, ttf_n, tpot, itl, e2e and batch_latency are in ms. throughput is in what the model gives per second,
            tokens/s
            or images/s, and cost_per_mtok in USD for a million of them. Unless stated, the unit becomes that of the model.
        value (float | None):
        verdict (LoadOutcomeVerdict):
        requests (int):
        over (int):
        needed (int): requests without one beyond the limit that prove it
        alike (float | Unset): requests that count as one: those that queue or are answered together are alike Default:
            1.0.
    """

    objective: Objective
    value: float | None
    verdict: LoadOutcomeVerdict
    requests: int
    over: int
    needed: int
    alike: float | Unset = 1.0

    def to_dict(self) -> dict[str, Any]:
        objective = self.objective.to_dict()

        value: float | None
        value = self.value

        verdict: str = self.verdict

        requests = self.requests

        over = self.over

        needed = self.needed

        alike = self.alike

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "objective": objective,
                "value": value,
                "verdict": verdict,
                "requests": requests,
                "over": over,
                "needed": needed,
            }
        )
        if alike is not UNSET:
            field_dict["alike"] = alike

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.objective import Objective  # noqa: PLC0415

        d = dict(src_dict)
        objective = Objective.from_dict(d.pop("objective"))

        def _parse_value(data: object) -> float | None:
            if data is None:
                return data
            return cast(float | None, data)

        value = _parse_value(d.pop("value"))

        verdict = check_load_outcome_verdict(d.pop("verdict"))

        requests = d.pop("requests")

        over = d.pop("over")

        needed = d.pop("needed")

        alike = d.pop("alike", UNSET)

        load_outcome = cls(
            objective=objective,
            value=value,
            verdict=verdict,
            requests=requests,
            over=over,
            needed=needed,
            alike=alike,
        )

        return load_outcome
