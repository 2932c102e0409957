from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="GeneratorLag")


@_attrs_define
class GeneratorLag:
    """The generator's own delay in ms: how late it turned to requests, and how late its event loop came to ticks.

    Each figure is that of the latest of its processes.

        Attributes:
            send_p50 (float):
            send_p99 (float):
            send_max (float):
            loop_p99 (float):
            limit (float):
            void (bool):
            processes (int | Unset): processes that sent the load Default: 1.
    """

    send_p50: float
    send_p99: float
    send_max: float
    loop_p99: float
    limit: float
    void: bool
    processes: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        send_p50 = self.send_p50

        send_p99 = self.send_p99

        send_max = self.send_max

        loop_p99 = self.loop_p99

        limit = self.limit

        void = self.void

        processes = self.processes

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "send_p50": send_p50,
                "send_p99": send_p99,
                "send_max": send_max,
                "loop_p99": loop_p99,
                "limit": limit,
                "void": void,
            }
        )
        if processes is not UNSET:
            field_dict["processes"] = processes

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        send_p50 = d.pop("send_p50")

        send_p99 = d.pop("send_p99")

        send_max = d.pop("send_max")

        loop_p99 = d.pop("loop_p99")

        limit = d.pop("limit")

        void = d.pop("void")

        processes = d.pop("processes", UNSET)

        generator_lag = cls(
            send_p50=send_p50,
            send_p99=send_p99,
            send_max=send_max,
            loop_p99=loop_p99,
            limit=limit,
            void=void,
            processes=processes,
        )

        return generator_lag
