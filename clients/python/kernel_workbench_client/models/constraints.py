from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.constraints_gpu_classes_item import (
    ConstraintsGpuClassesItem,
    check_constraints_gpu_classes_item,
)
from ..models.constraints_precisions_item import (
    ConstraintsPrecisionsItem,
    check_constraints_precisions_item,
)
from ..models.constraints_prefer import ConstraintsPrefer, check_constraints_prefer
from ..types import UNSET, Unset

T = TypeVar("T", bound="Constraints")


@_attrs_define
class Constraints:
    """Limits of the optimisation: GPU classes, precisions, excluded variants, which plan is preferred, minutes.

    Attributes:
        precisions (list[ConstraintsPrecisionsItem] | Unset):
        gpu_classes (list[ConstraintsGpuClassesItem] | Unset):
        exclude (list[str] | Unset): variants that may not be used, by their names, such as megakernel
        prefer (ConstraintsPrefer | Unset): of the plans that keep every promise, the cheapest by the token or the
            fastest Default: 'cheapest'.
        minutes (float | Unset): time to spend on the whole run Default: 6.0.
        max_quality_loss (float | None | Unset): largest rise of the top-1 disagreement rate against the float32 model
            over the baseline's own; a tenth of it, in nats, bounds the rise of the mean KL divergence. Unless stated 0.005
            and 0.00005 nats on trained weights and 0.01 and 0.0004 nats on generated ones, by what bf16 itself loses
        allow_unverified_quality (bool | Unset): allow lower precision on generated weights, where quality cannot be
            measured Default: False.
    """

    precisions: list[ConstraintsPrecisionsItem] | Unset = UNSET
    gpu_classes: list[ConstraintsGpuClassesItem] | Unset = UNSET
    exclude: list[str] | Unset = UNSET
    prefer: ConstraintsPrefer | Unset = "cheapest"
    minutes: float | Unset = 6.0
    max_quality_loss: float | None | Unset = UNSET
    allow_unverified_quality: bool | Unset = False

    def to_dict(self) -> dict[str, Any]:
        precisions: list[str] | Unset = UNSET
        if not isinstance(self.precisions, Unset):
            precisions = []
            for precisions_item_data in self.precisions:
                precisions_item: str = precisions_item_data
                precisions.append(precisions_item)

        gpu_classes: list[str] | Unset = UNSET
        if not isinstance(self.gpu_classes, Unset):
            gpu_classes = []
            for gpu_classes_item_data in self.gpu_classes:
                gpu_classes_item: str = gpu_classes_item_data
                gpu_classes.append(gpu_classes_item)

        exclude: list[str] | Unset = UNSET
        if not isinstance(self.exclude, Unset):
            exclude = self.exclude

        prefer: str | Unset = UNSET
        if not isinstance(self.prefer, Unset):
            prefer = self.prefer

        minutes = self.minutes

        max_quality_loss: float | None | Unset
        if isinstance(self.max_quality_loss, Unset):
            max_quality_loss = UNSET
        else:
            max_quality_loss = self.max_quality_loss

        allow_unverified_quality = self.allow_unverified_quality

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if precisions is not UNSET:
            field_dict["precisions"] = precisions
        if gpu_classes is not UNSET:
            field_dict["gpu_classes"] = gpu_classes
        if exclude is not UNSET:
            field_dict["exclude"] = exclude
        if prefer is not UNSET:
            field_dict["prefer"] = prefer
        if minutes is not UNSET:
            field_dict["minutes"] = minutes
        if max_quality_loss is not UNSET:
            field_dict["max_quality_loss"] = max_quality_loss
        if allow_unverified_quality is not UNSET:
            field_dict["allow_unverified_quality"] = allow_unverified_quality

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _precisions = d.pop("precisions", UNSET)
        precisions: list[ConstraintsPrecisionsItem] | Unset = UNSET
        if _precisions is not UNSET:
            precisions = []
            for precisions_item_data in _precisions:
                precisions_item = check_constraints_precisions_item(precisions_item_data)

                precisions.append(precisions_item)

        _gpu_classes = d.pop("gpu_classes", UNSET)
        gpu_classes: list[ConstraintsGpuClassesItem] | Unset = UNSET
        if _gpu_classes is not UNSET:
            gpu_classes = []
            for gpu_classes_item_data in _gpu_classes:
                gpu_classes_item = check_constraints_gpu_classes_item(gpu_classes_item_data)

                gpu_classes.append(gpu_classes_item)

        exclude = cast(list[str], d.pop("exclude", UNSET))

        _prefer = d.pop("prefer", UNSET)
        prefer: ConstraintsPrefer | Unset
        if isinstance(_prefer, Unset):
            prefer = UNSET
        else:
            prefer = check_constraints_prefer(_prefer)

        minutes = d.pop("minutes", UNSET)

        def _parse_max_quality_loss(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        max_quality_loss = _parse_max_quality_loss(d.pop("max_quality_loss", UNSET))

        allow_unverified_quality = d.pop("allow_unverified_quality", UNSET)

        constraints = cls(
            precisions=precisions,
            gpu_classes=gpu_classes,
            exclude=exclude,
            prefer=prefer,
            minutes=minutes,
            max_quality_loss=max_quality_loss,
            allow_unverified_quality=allow_unverified_quality,
        )

        return constraints
