from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Sampling")


@_attrs_define
class Sampling:
    """How the next token is drawn; greedy unless stated.

    Attributes:
        temperature (float | Unset):  Default: 0.0.
        top_p (float | Unset):  Default: 1.0.
        top_k (int | None | Unset):
    """

    temperature: float | Unset = 0.0
    top_p: float | Unset = 1.0
    top_k: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        temperature = self.temperature

        top_p = self.top_p

        top_k: int | None | Unset
        if isinstance(self.top_k, Unset):
            top_k = UNSET
        else:
            top_k = self.top_k

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if temperature is not UNSET:
            field_dict["temperature"] = temperature
        if top_p is not UNSET:
            field_dict["top_p"] = top_p
        if top_k is not UNSET:
            field_dict["top_k"] = top_k

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        temperature = d.pop("temperature", UNSET)

        top_p = d.pop("top_p", UNSET)

        def _parse_top_k(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        top_k = _parse_top_k(d.pop("top_k", UNSET))

        sampling = cls(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
        )

        return sampling
