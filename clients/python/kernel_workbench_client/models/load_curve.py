from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.limit_result import LimitResult
    from ..models.loaded_server import LoadedServer


T = TypeVar("T", bound="LoadCurve")


@_attrs_define
class LoadCurve:
    """One server under rising load; `sentence` says the highest load that holds and what stands behind it.

    Attributes:
        server (LoadedServer): What was put under load, and on whose hardware.

            `kind`: `server`, this workbench's server; `batches`, a runner that serves batches formed as requests arrive;
            `vllm`, started for this run; `endpoint`, a server of the customer's. `hardware` is the device, or what its
            owner
            says of it. `settings` are those that vLLM was given, or what this workbench's server chose for the plan.
            `caveats`
            are sentences about what cannot be compared with the other side.
        limit (LimitResult): The highest load at which every objective held, and every load that was tried, by rising
            load.

            Of a closed loop that is `users` of `most`, of an open one `rate` of `most_rate`, in requests per second, and of
            recorded arrivals `speed` of `most_speed`, in times as fast as recorded; `users` are then those that were open
            on
            average. All are 0 where none was met. `confidence` is that of the whole search;
            each load was judged with `confidence_each`. `unfinished` says in a sentence why the search ended before its
            rule
            did; "" where it did not.
        sentence (str):
    """

    server: LoadedServer
    limit: LimitResult
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        server = self.server.to_dict()

        limit = self.limit.to_dict()

        sentence = self.sentence

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "server": server,
                "limit": limit,
                "sentence": sentence,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.limit_result import LimitResult  # noqa: PLC0415
        from ..models.loaded_server import LoadedServer  # noqa: PLC0415

        d = dict(src_dict)
        server = LoadedServer.from_dict(d.pop("server"))

        limit = LimitResult.from_dict(d.pop("limit"))

        sentence = d.pop("sentence")

        load_curve = cls(
            server=server,
            limit=limit,
            sentence=sentence,
        )

        return load_curve
