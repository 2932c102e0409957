from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.op_row_bound import OpRowBound, check_op_row_bound
from ..types import UNSET, Unset

T = TypeVar("T", bound="OpRow")


@_attrs_define
class OpRow:
    """One op of the profile, summed over one request. Times in ms; `bound`: memory, compute, launch or idle.

    Attributes:
        op (str):
        phase (str):
        kernel (str):
        ms (float):
        share (float):
        calls (int):
        bound (OpRowBound):
        launches (int | None | Unset): of kernels; on a CPU, of torch's operations
        shapes (str | Unset):  Default: ''.
        flops (float | None | Unset):
        least_bytes (float | None | Unset):
        floor_ms (float | None | Unset):
        headroom_ms (float | None | Unset):
        doubt (str | Unset): why the row has no floor though one was computed, in a sentence Default: ''.
    """

    op: str
    phase: str
    kernel: str
    ms: float
    share: float
    calls: int
    bound: OpRowBound
    launches: int | None | Unset = UNSET
    shapes: str | Unset = ""
    flops: float | None | Unset = UNSET
    least_bytes: float | None | Unset = UNSET
    floor_ms: float | None | Unset = UNSET
    headroom_ms: float | None | Unset = UNSET
    doubt: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        op = self.op

        phase = self.phase

        kernel = self.kernel

        ms = self.ms

        share = self.share

        calls = self.calls

        bound: str = self.bound

        launches: int | None | Unset
        if isinstance(self.launches, Unset):
            launches = UNSET
        else:
            launches = self.launches

        shapes = self.shapes

        flops: float | None | Unset
        if isinstance(self.flops, Unset):
            flops = UNSET
        else:
            flops = self.flops

        least_bytes: float | None | Unset
        if isinstance(self.least_bytes, Unset):
            least_bytes = UNSET
        else:
            least_bytes = self.least_bytes

        floor_ms: float | None | Unset
        if isinstance(self.floor_ms, Unset):
            floor_ms = UNSET
        else:
            floor_ms = self.floor_ms

        headroom_ms: float | None | Unset
        if isinstance(self.headroom_ms, Unset):
            headroom_ms = UNSET
        else:
            headroom_ms = self.headroom_ms

        doubt = self.doubt

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "op": op,
                "phase": phase,
                "kernel": kernel,
                "ms": ms,
                "share": share,
                "calls": calls,
                "bound": bound,
            }
        )
        if launches is not UNSET:
            field_dict["launches"] = launches
        if shapes is not UNSET:
            field_dict["shapes"] = shapes
        if flops is not UNSET:
            field_dict["flops"] = flops
        if least_bytes is not UNSET:
            field_dict["least_bytes"] = least_bytes
        if floor_ms is not UNSET:
            field_dict["floor_ms"] = floor_ms
        if headroom_ms is not UNSET:
            field_dict["headroom_ms"] = headroom_ms
        if doubt is not UNSET:
            field_dict["doubt"] = doubt

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        op = d.pop("op")

        phase = d.pop("phase")

        kernel = d.pop("kernel")

        ms = d.pop("ms")

        share = d.pop("share")

        calls = d.pop("calls")

        bound = check_op_row_bound(d.pop("bound"))

        def _parse_launches(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        launches = _parse_launches(d.pop("launches", UNSET))

        shapes = d.pop("shapes", UNSET)

        def _parse_flops(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        flops = _parse_flops(d.pop("flops", UNSET))

        def _parse_least_bytes(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        least_bytes = _parse_least_bytes(d.pop("least_bytes", UNSET))

        def _parse_floor_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        floor_ms = _parse_floor_ms(d.pop("floor_ms", UNSET))

        def _parse_headroom_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        headroom_ms = _parse_headroom_ms(d.pop("headroom_ms", UNSET))

        doubt = d.pop("doubt", UNSET)

        op_row = cls(
            op=op,
            phase=phase,
            kernel=kernel,
            ms=ms,
            share=share,
            calls=calls,
            bound=bound,
            launches=launches,
            shapes=shapes,
            flops=flops,
            least_bytes=least_bytes,
            floor_ms=floor_ms,
            headroom_ms=headroom_ms,
            doubt=doubt,
        )

        return op_row
