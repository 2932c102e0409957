from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.gap_kind import GapKind, check_gap_kind

T = TypeVar("T", bound="Gap")


@_attrs_define
class Gap:
    """An op of a model whose time can shrink; `ms` of one request lie between its time and its bound.

    `kind` is `missing` (no variant of ours passed; the bound is the floor), `behind` (a peer is faster; its time is the
    bound) or `above` (the bound is the floor). Times are in ms; `calls` counts the calls in one request.

        Attributes:
            model (str):
            case (str):
            calls (float):
            kind (GapKind):
            ms (float):
            variant (str):
            call_ms (float):
            bound_ms (float):
    """

    model: str
    case: str
    calls: float
    kind: GapKind
    ms: float
    variant: str
    call_ms: float
    bound_ms: float

    def to_dict(self) -> dict[str, Any]:
        model = self.model

        case = self.case

        calls = self.calls

        kind: str = self.kind

        ms = self.ms

        variant = self.variant

        call_ms = self.call_ms

        bound_ms = self.bound_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "model": model,
                "case": case,
                "calls": calls,
                "kind": kind,
                "ms": ms,
                "variant": variant,
                "call_ms": call_ms,
                "bound_ms": bound_ms,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        model = d.pop("model")

        case = d.pop("case")

        calls = d.pop("calls")

        kind = check_gap_kind(d.pop("kind"))

        ms = d.pop("ms")

        variant = d.pop("variant")

        call_ms = d.pop("call_ms")

        bound_ms = d.pop("bound_ms")

        gap = cls(
            model=model,
            case=case,
            calls=calls,
            kind=kind,
            ms=ms,
            variant=variant,
            call_ms=call_ms,
            bound_ms=bound_ms,
        )

        return gap
