from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.admit_result_kind import AdmitResultKind, check_admit_result_kind
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.feasibility import Feasibility
    from ..models.prediction import Prediction


T = TypeVar("T", bound="AdmitResult")


@_attrs_define
class AdmitResult:
    """
    Attributes:
        kind (AdmitResultKind):
        family (str):
        architecture (str):
        parameters (int):
        weight_bytes (int):
        kv_bytes_per_token (int):
        dtype (str):
        classes (list[Feasibility]):
        predicted (None | Prediction | Unset): of the plan, before anything is measured
        why_several (str | Unset): why the run takes several GPUs though fewer are allowed as well Default: ''.
        notes (list[str] | Unset):
    """

    kind: AdmitResultKind
    family: str
    architecture: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    dtype: str
    classes: list[Feasibility]
    predicted: None | Prediction | Unset = UNSET
    why_several: str | Unset = ""
    notes: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.prediction import Prediction  # noqa: PLC0415

        kind: str = self.kind

        family = self.family

        architecture = self.architecture

        parameters = self.parameters

        weight_bytes = self.weight_bytes

        kv_bytes_per_token = self.kv_bytes_per_token

        dtype = self.dtype

        classes = []
        for classes_item_data in self.classes:
            classes_item = classes_item_data.to_dict()
            classes.append(classes_item)

        predicted: dict[str, Any] | None | Unset
        if isinstance(self.predicted, Unset):
            predicted = UNSET
        elif isinstance(self.predicted, Prediction):
            predicted = self.predicted.to_dict()
        else:
            predicted = self.predicted

        why_several = self.why_several

        notes: list[str] | Unset = UNSET
        if not isinstance(self.notes, Unset):
            notes = self.notes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "kind": kind,
                "family": family,
                "architecture": architecture,
                "parameters": parameters,
                "weight_bytes": weight_bytes,
                "kv_bytes_per_token": kv_bytes_per_token,
                "dtype": dtype,
                "classes": classes,
            }
        )
        if predicted is not UNSET:
            field_dict["predicted"] = predicted
        if why_several is not UNSET:
            field_dict["why_several"] = why_several
        if notes is not UNSET:
            field_dict["notes"] = notes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.feasibility import Feasibility  # noqa: PLC0415
        from ..models.prediction import Prediction  # noqa: PLC0415

        d = dict(src_dict)
        kind = check_admit_result_kind(d.pop("kind"))

        family = d.pop("family")

        architecture = d.pop("architecture")

        parameters = d.pop("parameters")

        weight_bytes = d.pop("weight_bytes")

        kv_bytes_per_token = d.pop("kv_bytes_per_token")

        dtype = d.pop("dtype")

        classes = []
        _classes = d.pop("classes")
        for classes_item_data in _classes:
            classes_item = Feasibility.from_dict(classes_item_data)

            classes.append(classes_item)

        def _parse_predicted(data: object) -> None | Prediction | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                predicted_type_0 = Prediction.from_dict(data)

                return predicted_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Prediction | Unset, data)

        predicted = _parse_predicted(d.pop("predicted", UNSET))

        why_several = d.pop("why_several", UNSET)

        notes = cast(list[str], d.pop("notes", UNSET))

        admit_result = cls(
            kind=kind,
            family=family,
            architecture=architecture,
            parameters=parameters,
            weight_bytes=weight_bytes,
            kv_bytes_per_token=kv_bytes_per_token,
            dtype=dtype,
            classes=classes,
            predicted=predicted,
            why_several=why_several,
            notes=notes,
        )

        return admit_result
