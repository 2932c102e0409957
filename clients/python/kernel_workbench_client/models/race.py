from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Race")


@_attrs_define
class Race:
    """The outcome of one case: the fastest variant of ours, the fastest peer, times in ms, and the roofline floor.

    Attributes:
        case (str):
        own (str | Unset):  Default: ''.
        own_ms (float | None | Unset):
        peer (str | Unset):  Default: ''.
        peer_ms (float | None | Unset):
        floor_ms (float | None | Unset):
    """

    case: str
    own: str | Unset = ""
    own_ms: float | None | Unset = UNSET
    peer: str | Unset = ""
    peer_ms: float | None | Unset = UNSET
    floor_ms: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        case = self.case

        own = self.own

        own_ms: float | None | Unset
        if isinstance(self.own_ms, Unset):
            own_ms = UNSET
        else:
            own_ms = self.own_ms

        peer = self.peer

        peer_ms: float | None | Unset
        if isinstance(self.peer_ms, Unset):
            peer_ms = UNSET
        else:
            peer_ms = self.peer_ms

        floor_ms: float | None | Unset
        if isinstance(self.floor_ms, Unset):
            floor_ms = UNSET
        else:
            floor_ms = self.floor_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "case": case,
            }
        )
        if own is not UNSET:
            field_dict["own"] = own
        if own_ms is not UNSET:
            field_dict["own_ms"] = own_ms
        if peer is not UNSET:
            field_dict["peer"] = peer
        if peer_ms is not UNSET:
            field_dict["peer_ms"] = peer_ms
        if floor_ms is not UNSET:
            field_dict["floor_ms"] = floor_ms

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        case = d.pop("case")

        own = d.pop("own", UNSET)

        def _parse_own_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        own_ms = _parse_own_ms(d.pop("own_ms", UNSET))

        peer = d.pop("peer", UNSET)

        def _parse_peer_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        peer_ms = _parse_peer_ms(d.pop("peer_ms", UNSET))

        def _parse_floor_ms(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        floor_ms = _parse_floor_ms(d.pop("floor_ms", UNSET))

        race = cls(
            case=case,
            own=own,
            own_ms=own_ms,
            peer=peer,
            peer_ms=peer_ms,
            floor_ms=floor_ms,
        )

        return race
