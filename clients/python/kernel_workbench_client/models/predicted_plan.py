from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.predicted_figure import PredictedFigure


T = TypeVar("T", bound="PredictedPlan")


@_attrs_define
class PredictedPlan:
    """What is predicted of a runner's plan on so many GPUs whose weights are in one precision.

    `runner` is that of the plan, or `cuda_graphs` for torch's kernels under CUDA graphs. It is empty in documents from
    before runners had predictions of their own.

        Attributes:
            weights (str):
            figures (list[PredictedFigure]):
            runner (str | Unset):  Default: ''.
            gpus (int | Unset):  Default: 1.
    """

    weights: str
    figures: list[PredictedFigure]
    runner: str | Unset = ""
    gpus: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights

        figures = []
        for figures_item_data in self.figures:
            figures_item = figures_item_data.to_dict()
            figures.append(figures_item)

        runner = self.runner

        gpus = self.gpus

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "weights": weights,
                "figures": figures,
            }
        )
        if runner is not UNSET:
            field_dict["runner"] = runner
        if gpus is not UNSET:
            field_dict["gpus"] = gpus

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.predicted_figure import PredictedFigure  # noqa: PLC0415

        d = dict(src_dict)
        weights = d.pop("weights")

        figures = []
        _figures = d.pop("figures")
        for figures_item_data in _figures:
            figures_item = PredictedFigure.from_dict(figures_item_data)

            figures.append(figures_item)

        runner = d.pop("runner", UNSET)

        gpus = d.pop("gpus", UNSET)

        predicted_plan = cls(
            weights=weights,
            figures=figures,
            runner=runner,
            gpus=gpus,
        )

        return predicted_plan
