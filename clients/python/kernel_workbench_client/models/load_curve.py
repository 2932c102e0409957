from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.limit_result import LimitResult
    from ..models.loaded_server import LoadedServer
    from ..models.served_ids import ServedIds


T = TypeVar("T", bound="LoadCurve")


@_attrs_define
class LoadCurve:
    """One server under rising load; `sentence` says the highest load that holds and what stands behind it.

    `served_ids` are those of answers at its loads; None where none were judged, as at an endpoint.

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
            served_ids (None | ServedIds | Unset):
    """

    server: LoadedServer
    limit: LimitResult
    sentence: str
    served_ids: None | ServedIds | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.served_ids import ServedIds  # noqa: PLC0415

        server = self.server.to_dict()

        limit = self.limit.to_dict()

        sentence = self.sentence

        served_ids: dict[str, Any] | None | Unset
        if isinstance(self.served_ids, Unset):
            served_ids = UNSET
        elif isinstance(self.served_ids, ServedIds):
            served_ids = self.served_ids.to_dict()
        else:
            served_ids = self.served_ids

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "server": server,
                "limit": limit,
                "sentence": sentence,
            }
        )
        if served_ids is not UNSET:
            field_dict["served_ids"] = served_ids

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.limit_result import LimitResult  # noqa: PLC0415
        from ..models.loaded_server import LoadedServer  # noqa: PLC0415
        from ..models.served_ids import ServedIds  # noqa: PLC0415

        d = dict(src_dict)
        server = LoadedServer.from_dict(d.pop("server"))

        limit = LimitResult.from_dict(d.pop("limit"))

        sentence = d.pop("sentence")

        def _parse_served_ids(data: object) -> None | ServedIds | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                served_ids_type_0 = ServedIds.from_dict(data)

                return served_ids_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | ServedIds | Unset, data)

        served_ids = _parse_served_ids(d.pop("served_ids", UNSET))

        load_curve = cls(
            server=server,
            limit=limit,
            sentence=sentence,
            served_ids=served_ids,
        )

        return load_curve
