from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.candidate import Candidate
    from ..models.ceilings import Ceilings
    from ..models.environment import Environment


T = TypeVar("T", bound="ExploreResult")


@_attrs_define
class ExploreResult:
    """
    Attributes:
        environment (Environment): The device, the libraries and the commit that a figure was measured with; `at` is ISO
            8601 UTC.
        ceilings (Ceilings): Measured limits of the device under settled clocks, and the time of an empty launch in
            microseconds.

            `burst`: those of single calls after pauses, where clocks are at their highest; None on a CPU and in documents
            that
            know one regime.
        candidates (list[Candidate]):
    """

    environment: Environment
    ceilings: Ceilings
    candidates: list[Candidate]

    def to_dict(self) -> dict[str, Any]:
        environment = self.environment.to_dict()

        ceilings = self.ceilings.to_dict()

        candidates = []
        for candidates_item_data in self.candidates:
            candidates_item = candidates_item_data.to_dict()
            candidates.append(candidates_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "ceilings": ceilings,
                "candidates": candidates,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.candidate import Candidate  # noqa: PLC0415
        from ..models.ceilings import Ceilings  # noqa: PLC0415
        from ..models.environment import Environment  # noqa: PLC0415

        d = dict(src_dict)
        environment = Environment.from_dict(d.pop("environment"))

        ceilings = Ceilings.from_dict(d.pop("ceilings"))

        candidates = []
        _candidates = d.pop("candidates")
        for candidates_item_data in _candidates:
            candidates_item = Candidate.from_dict(candidates_item_data)

            candidates.append(candidates_item)

        explore_result = cls(
            environment=environment,
            ceilings=ceilings,
            candidates=candidates,
        )

        return explore_result
