from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.candidate_case import CandidateCase
    from ..models.candidate_params import CandidateParams


T = TypeVar("T", bound="Candidate")


@_attrs_define
class Candidate:
    """One variant tried for one case: its time, error, gate and the reason it was chosen or not.

    `gate`: pass, fail, impossible (faster than the chip could be), refused (cannot serve the case), error.
    `per_request`: how often the case runs in one request. `summary`: what the variant is. Times in ms.

        Attributes:
            id (str):
            op (str):
            case (CandidateCase):
            variant (str):
            gate (str):
            summary (str | Unset):  Default: ''.
            params (CandidateParams | Unset):
            peer (bool | Unset):  Default: False.
            error (float | None | Unset):
            error_limit (float | None | Unset):
            ms (float | None | Unset):
            ms_low (float | None | Unset):
            ms_high (float | None | Unset):
            floor_ms (float | None | Unset):
            floor_share (float | None | Unset):
            tflops (float | None | Unset):
            gbps (float | None | Unset):
            per_request (float | Unset):  Default: 1.0.
            kernels (list[str] | Unset):
            chosen (bool | Unset):  Default: False.
            reason (str | Unset):  Default: ''.
    """

    id: str
    op: str
    case: CandidateCase
    variant: str
    gate: str
    summary: str | Unset = ""
    params: CandidateParams | Unset = UNSET
    peer: bool | Unset = False
    error: float | None | Unset = UNSET
    error_limit: float | None | Unset = UNSET
    ms: float | None | Unset = UNSET
    ms_low: float | None | Unset = UNSET
    ms_high: float | None | Unset = UNSET
    floor_ms: float | None | Unset = UNSET
    floor_share: float | None | Unset = UNSET
    tflops: float | None | Unset = UNSET
    gbps: float | None | Unset = UNSET
    per_request: float | Unset = 1.0
    kernels: list[str] | Unset = UNSET
    chosen: bool | Unset = False
    reason: str | Unset = ""

    def to_dict(self) -> dict[str, Any]:
        id = self.id

        op = self.op

        case = self.case.to_dict()

        variant = self.variant

        gate = self.gate

        summary = self.summary

        params: dict[str, Any] | Unset = UNSET
        if not isinstance(self.params, Unset):
            params = self.params.to_dict()

        peer = self.peer

        error: float | None | Unset
        if isinstance(self.error, Unset):
            error = UNSET
        else:
            error = self.error

        error_limit: float | None | Unset
        if isinstance(self.error_limit, Unset):
            error_limit = UNSET
        else:
            error_limit = self.error_limit

        ms: float | None | Unset
        if isinstance(self.ms, Unset):
            ms = UNSET
        else:
            ms = self.ms

        ms_low: float | None | Unset
        if isinstance(self.ms_low, Unset):
            ms_low = UNSET
        else:
            ms_low = self.ms_low

        ms_high: float | None | Unset
        if isinstance(self.ms_high, Unset):
            ms_high = UNSET
        else:
            ms_high = self.ms_high

        floor_ms: float | None | Unset
        if isinstance(self.floor_ms, Unset):
            floor_ms = UNSET
        else:
            floor_ms = self.floor_ms

        floor_share: float | None | Unset
        if isinstance(self.floor_share, Unset):
            floor_share = UNSET
        else:
            floor_share = self.floor_share

        tflops: float | None | Unset
        if isinstance(self.tflops, Unset):
            tflops = UNSET
        else:
            tflops = self.tflops

        gbps: float | None | Unset
        if isinstance(self.gbps, Unset):
            gbps = UNSET
        else:
            gbps = self.gbps

        per_request = self.per_request

        kernels: list[str] | Unset = UNSET
        if not isinstance(self.kernels, Unset):
            kernels = self.kernels

        chosen = self.chosen

        reason = self.reason

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "id": id,
                "op": op,
                "case": case,
                "variant": variant,
                "gate": gate,
            }
        )
        if summary is not UNSET:
            field_dict["summary"] = summary
        if params is not UNSET:
            field_dict["params"] = params
        if peer is not UNSET:
            field_dict["peer"] = peer
        if error is not UNSET:
            field_dict["error"] = error
        if error_limit is not UNSET:
            field_dict["error_limit"] = error_limit
        if ms is not UNSET:
            field_dict["ms"] = ms
        if ms_low is not UNSET:
            field_dict["ms_low"] = ms_low
        if ms_high is not UNSET:
            field_dict["ms_high"] = ms_high
        if floor_ms is not UNSET:
            field_dict["floor_ms"] = floor_ms
        if floor_share is not UNSET:
            field_dict["floor_share"] = floor_share
        if tflops is not UNSET:
            field_dict["tflops"] = tflops
        if gbps is not UNSET:
            field_dict["gbps"] = gbps
        if per_request is not UNSET:
            field_dict["per_request"] = per_request
        if kernels is not UNSET:
            field_dict["kernels"] = kernels
        if chosen is not UNSET:
            field_dict["chosen"] = chosen
        if reason is not UNSET:
            field_dict["reason"] = reason

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.candidate_case import CandidateCase  # noqa: PLC0415
        from ..models.candidate_params import CandidateParams  # noqa: PLC0415

        d = dict(src_dict)
        id = d.pop("id")

        op = d.pop("op")

        case = CandidateCase.from_dict(d.pop("case"))

        variant = d.pop("variant")

        gate = d.pop("gate")

        summary = d.pop("summary", UNSET)

        _params = d.pop("params", UNSET)
        params: CandidateParams | Unset
        if isinstance(_params, Unset):
            params = UNSET
        else:
            params = CandidateParams.from_dict(_params)

        peer = d.pop("peer", UNSET)

        def _parse_error(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        error = _parse_error(d.pop("error", UNSET))

        def _parse_error_limit(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        error_limit = _parse_error_limit(d.pop("error_limit", UNSET))

        def _parse_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        ms = _parse_ms(d.pop("ms", UNSET))

        def _parse_ms_low(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        ms_low = _parse_ms_low(d.pop("ms_low", UNSET))

        def _parse_ms_high(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        ms_high = _parse_ms_high(d.pop("ms_high", UNSET))

        def _parse_floor_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        floor_ms = _parse_floor_ms(d.pop("floor_ms", UNSET))

        def _parse_floor_share(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        floor_share = _parse_floor_share(d.pop("floor_share", UNSET))

        def _parse_tflops(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        tflops = _parse_tflops(d.pop("tflops", UNSET))

        def _parse_gbps(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        gbps = _parse_gbps(d.pop("gbps", UNSET))

        per_request = d.pop("per_request", UNSET)

        kernels = cast(list[str], d.pop("kernels", UNSET))

        chosen = d.pop("chosen", UNSET)

        reason = d.pop("reason", UNSET)

        candidate = cls(
            id=id,
            op=op,
            case=case,
            variant=variant,
            gate=gate,
            summary=summary,
            params=params,
            peer=peer,
            error=error,
            error_limit=error_limit,
            ms=ms,
            ms_low=ms_low,
            ms_high=ms_high,
            floor_ms=floor_ms,
            floor_share=floor_share,
            tflops=tflops,
            gbps=gbps,
            per_request=per_request,
            kernels=kernels,
            chosen=chosen,
            reason=reason,
        )

        return candidate
