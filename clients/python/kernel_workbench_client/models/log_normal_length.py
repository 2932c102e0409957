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

T = TypeVar("T", bound="LogNormalLength")


@_attrs_define
class LogNormalLength:
    """ln(length) is normal around ln(`median`) with standard deviation `sigma`; longer ones are cut to `most`.

    Attributes:
        median (int): half of the requests are shorter, in tokens
        sigma (float): standard deviation of the logarithm; 1 is a wide spread
        most (int): longer requests are cut to this many tokens
        kind (Literal['log-normal'] | Unset):  Default: 'log-normal'.
    """

    median: int
    sigma: float
    most: int
    kind: Literal["log-normal"] | Unset = "log-normal"

    def to_dict(self) -> dict[str, Any]:
        median = self.median

        sigma = self.sigma

        most = self.most

        kind = self.kind

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "median": median,
                "sigma": sigma,
                "most": most,
            }
        )
        if kind is not UNSET:
            field_dict["kind"] = kind

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        median = d.pop("median")

        sigma = d.pop("sigma")

        most = d.pop("most")

        kind = cast(Literal["log-normal"] | Unset, d.pop("kind", UNSET))
        if kind != "log-normal" and not isinstance(kind, Unset):
            raise ValueError(f"kind must match const 'log-normal', got '{kind}'")

        log_normal_length = cls(
            median=median,
            sigma=sigma,
            most=most,
            kind=kind,
        )

        return log_normal_length
