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

T = TypeVar("T", bound="Poisson")


@_attrs_define
class Poisson:
    """Requests arrive independently of each other and of the answers, `rate` a second on average.

    Attributes:
        rate (float): requests per second; where a run searches the highest load, the most that it tries
        kind (Literal['poisson'] | Unset):  Default: 'poisson'.
    """

    rate: float
    kind: Literal["poisson"] | Unset = "poisson"

    def to_dict(self) -> dict[str, Any]:
        rate = self.rate

        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "rate": rate,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        rate = d.pop("rate")

        kind = cast(Literal["poisson"] | Unset, d.pop("kind", UNSET))
        if kind != "poisson" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'poisson', got '{kind}'")

        poisson = cls(
            rate=rate,
            kind=kind,
        )

        return poisson
