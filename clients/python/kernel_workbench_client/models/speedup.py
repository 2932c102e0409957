from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.drift import Drift
    from ..models.interval import Interval
    from ..models.process_medians import ProcessMedians


T = TypeVar("T", bound="Speedup")


@_attrs_define
class Speedup:
    """Ratio of before to after of the first objective's metric, above 1 when after is better, beside the noise floor.

    `processes` are in the order that they ran: verify's own, by whose requests the plan was confirmed, then fresh ones.
    With LEAST_PROCESSES of them or more, `ratio` is the geometric mean of their ratios with the interval that contains
    their spread, and `noise` the plan in one process against itself in another. With fewer, both are of the first
    process: `noise` is then a side's odd requests against its even ones.

        Attributes:
            metric (str):
            ratio (Interval): A central value with its 95 % interval.
            noise (Interval): A central value with its 95 % interval.
            difference (bool):
            processes (list[ProcessMedians] | Unset):
            drifts (list[Drift] | Unset):
    """

    metric: str
    ratio: Interval
    noise: Interval
    difference: bool
    processes: list[ProcessMedians] | Unset = UNSET
    drifts: list[Drift] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        metric = self.metric

        ratio = self.ratio.to_dict()

        noise = self.noise.to_dict()

        difference = self.difference

        processes: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.processes, Unset):
            processes = []
            for processes_item_data in self.processes:
                processes_item = processes_item_data.to_dict()
                processes.append(processes_item)

        drifts: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.drifts, Unset):
            drifts = []
            for drifts_item_data in self.drifts:
                drifts_item = drifts_item_data.to_dict()
                drifts.append(drifts_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "metric": metric,
                "ratio": ratio,
                "noise": noise,
                "difference": difference,
            }
        )
        if processes is not UNSET:
            field_dict["processes"] = processes
        if drifts is not UNSET:
            field_dict["drifts"] = drifts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.drift import Drift  # noqa: PLC0415
        from ..models.interval import Interval  # noqa: PLC0415
        from ..models.process_medians import ProcessMedians  # noqa: PLC0415

        d = dict(src_dict)
        metric = d.pop("metric")

        ratio = Interval.from_dict(d.pop("ratio"))

        noise = Interval.from_dict(d.pop("noise"))

        difference = d.pop("difference")

        _processes = d.pop("processes", UNSET)
        processes: list[ProcessMedians] | Unset = UNSET
        if _processes is not UNSET:
            processes = []
            for processes_item_data in _processes:
                processes_item = ProcessMedians.from_dict(processes_item_data)

                processes.append(processes_item)

        _drifts = d.pop("drifts", UNSET)
        drifts: list[Drift] | Unset = UNSET
        if _drifts is not UNSET:
            drifts = []
            for drifts_item_data in _drifts:
                drifts_item = Drift.from_dict(drifts_item_data)

                drifts.append(drifts_item)

        speedup = cls(
            metric=metric,
            ratio=ratio,
            noise=noise,
            difference=difference,
            processes=processes,
            drifts=drifts,
        )

        return speedup
