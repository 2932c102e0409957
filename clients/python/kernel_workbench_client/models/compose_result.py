from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.compose_result_plan import ComposeResultPlan
    from ..models.environment import Environment
    from ..models.peer_trial import PeerTrial
    from ..models.plan_trial import PlanTrial


T = TypeVar("T", bound="ComposeResult")


@_attrs_define
class ComposeResult:
    """
    Attributes:
        environment (Environment): The device, the libraries and the commit that a figure was measured with; `at` is ISO
            8601 UTC.
        trials (list[PlanTrial]):
        plan (ComposeResultPlan):
        peers (list[PeerTrial] | Unset):
        steps (list[PlanTrial] | Unset): the kernels plan with ever more groups of its variants
        choice (str | Unset): the alternatives where the cheapest plan is not the fastest Default: ''.
    """

    environment: Environment
    trials: list[PlanTrial]
    plan: ComposeResultPlan
    peers: list[PeerTrial] | Unset = UNSET
    steps: list[PlanTrial] | Unset = UNSET
    choice: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        environment = self.environment.to_dict()

        trials = []
        for trials_item_data in self.trials:
            trials_item = trials_item_data.to_dict()
            trials.append(trials_item)

        plan = self.plan.to_dict()

        peers: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.peers, Unset):
            peers = []
            for peers_item_data in self.peers:
                peers_item = peers_item_data.to_dict()
                peers.append(peers_item)

        steps: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.steps, Unset):
            steps = []
            for steps_item_data in self.steps:
                steps_item = steps_item_data.to_dict()
                steps.append(steps_item)

        choice = self.choice

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "environment": environment,
                "trials": trials,
                "plan": plan,
            }
        )
        if peers is not UNSET:
            field_dict["peers"] = peers
        if steps is not UNSET:
            field_dict["steps"] = steps
        if choice is not UNSET:
            field_dict["choice"] = choice

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.compose_result_plan import ComposeResultPlan  # noqa: PLC0415
        from ..models.environment import Environment  # noqa: PLC0415
        from ..models.peer_trial import PeerTrial  # noqa: PLC0415
        from ..models.plan_trial import PlanTrial  # noqa: PLC0415

        d = dict(src_dict)
        environment = Environment.from_dict(d.pop("environment"))

        trials = []
        _trials = d.pop("trials")
        for trials_item_data in _trials:
            trials_item = PlanTrial.from_dict(trials_item_data)

            trials.append(trials_item)

        plan = ComposeResultPlan.from_dict(d.pop("plan"))

        _peers = d.pop("peers", UNSET)
        peers: list[PeerTrial] | Unset = UNSET
        if _peers is not UNSET:
            peers = []
            for peers_item_data in _peers:
                peers_item = PeerTrial.from_dict(peers_item_data)

                peers.append(peers_item)

        _steps = d.pop("steps", UNSET)
        steps: list[PlanTrial] | Unset = UNSET
        if _steps is not UNSET:
            steps = []
            for steps_item_data in _steps:
                steps_item = PlanTrial.from_dict(steps_item_data)

                steps.append(steps_item)

        choice = d.pop("choice", UNSET)

        compose_result = cls(
            environment=environment,
            trials=trials,
            plan=plan,
            peers=peers,
            steps=steps,
            choice=choice,
        )

        return compose_result
