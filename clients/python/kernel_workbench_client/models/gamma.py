from __future__ import annotations

from collections.abc import Mapping
from typing import (
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Gamma")


@_attrs_define
class Gamma:
    """As Poisson, with gaps from a gamma distribution: burstier above a `cv` of 1, more regular below.

    Attributes:
        rate (float): requests per second; where a run searches the highest load, the most that it tries
        cv (float): standard deviation of the gaps over their mean; 1 is Poisson
        kind (Literal['gamma'] | Unset):  Default: 'gamma'.
    """

    rate: float
    cv: float
    kind: Literal["gamma"] | Unset = "gamma"

    def to_dict(self) -> dict[str, Any]:
        rate = self.rate

        cv = self.cv

        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "rate": rate,
                "cv": cv,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        rate = d.pop("rate")

        cv = d.pop("cv")

        kind = cast(Literal["gamma"] | Unset, d.pop("kind", UNSET))
        if kind != "gamma" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'gamma', got '{kind}'")

        gamma = cls(
            rate=rate,
            cv=cv,
            kind=kind,
        )

        return gamma
