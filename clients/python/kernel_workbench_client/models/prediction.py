from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.prediction_basis import PredictionBasis, check_prediction_basis
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.predicted_plan import PredictedPlan


T = TypeVar("T", bound="Prediction")


@_attrs_define
class Prediction:
    """What is predicted of the plans that the run may find; `missing` are sentences about what is not predicted.

    Attributes:
        basis (PredictionBasis | Unset):  Default: 'modelled'.
        plans (list[PredictedPlan] | Unset):
        assumptions (list[str] | Unset):
        missing (list[str] | Unset):
    """

    basis: PredictionBasis | Unset = "modelled"
    plans: list[PredictedPlan] | Unset = UNSET
    assumptions: list[str] | Unset = UNSET
    missing: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        basis: str | Unset = UNSET
        if not isinstance(self.basis, Unset):
            basis = self.basis

        plans: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.plans, Unset):
            plans = []
            for plans_item_data in self.plans:
                plans_item = plans_item_data.to_dict()
                plans.append(plans_item)

        assumptions: list[str] | Unset = UNSET
        if not isinstance(self.assumptions, Unset):
            assumptions = self.assumptions

        missing: list[str] | Unset = UNSET
        if not isinstance(self.missing, Unset):
            missing = self.missing

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if basis is not UNSET:
            field_dict["basis"] = basis
        if plans is not UNSET:
            field_dict["plans"] = plans
        if assumptions is not UNSET:
            field_dict["assumptions"] = assumptions
        if missing is not UNSET:
            field_dict["missing"] = missing

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.predicted_plan import PredictedPlan  # noqa: PLC0415

        d = dict(src_dict)
        _basis = d.pop("basis", UNSET)
        basis: PredictionBasis | Unset
        if isinstance(_basis, Unset):
            basis = UNSET
        else:
            basis = check_prediction_basis(_basis)

        _plans = d.pop("plans", UNSET)
        plans: list[PredictedPlan] | Unset = UNSET
        if _plans is not UNSET:
            plans = []
            for plans_item_data in _plans:
                plans_item = PredictedPlan.from_dict(plans_item_data)

                plans.append(plans_item)

        assumptions = cast(list[str], d.pop("assumptions", UNSET))

        missing = cast(list[str], d.pop("missing", UNSET))

        prediction = cls(
            basis=basis,
            plans=plans,
            assumptions=assumptions,
            missing=missing,
        )

        return prediction
