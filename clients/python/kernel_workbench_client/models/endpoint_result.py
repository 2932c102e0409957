from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.endpoint_ratio import EndpointRatio
    from ..models.endpoint_round import EndpointRound
    from ..models.load_result import LoadResult
    from ..models.loaded_server import LoadedServer


T = TypeVar("T", bound="EndpointResult")


@_attrs_define
class EndpointResult:
    """The workload's traffic at its endpoint, all rounds together in `load`; None where `sentence` says why not.

    `server` says what it is and whose hardware, and by its caveats what is not comparable with the other figures.

        Attributes:
            server (LoadedServer): What was put under load, and on whose hardware.

                `kind`: `server`, this workbench's server; `batches`, a runner that serves batches formed as requests arrive;
                `vllm`, started for this run; `endpoint`, a server of the customer's. `hardware` is the device, or what its
                owner
                says of it. `settings` are those that vLLM was given, or what this workbench's server chose for the plan.
                `caveats`
                are sentences about what cannot be compared with the other side.
            sentence (str):
            load (LoadResult | None | Unset):
            rounds (list[EndpointRound] | Unset):
            ratios (list[EndpointRatio] | Unset):
    """

    server: LoadedServer
    sentence: str
    load: LoadResult | None | Unset = UNSET
    rounds: list[EndpointRound] | Unset = UNSET
    ratios: list[EndpointRatio] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.load_result import LoadResult  # noqa: PLC0415

        server = self.server.to_dict()

        sentence = self.sentence

        load: dict[str, Any] | None | Unset
        if isinstance(self.load, Unset):
            load = UNSET
        elif isinstance(self.load, LoadResult):
            load = self.load.to_dict()
        else:
            load = self.load

        rounds: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.rounds, Unset):
            rounds = []
            for rounds_item_data in self.rounds:
                rounds_item = rounds_item_data.to_dict()
                rounds.append(rounds_item)

        ratios: list[dict[str, Any]] | Unset = UNSET
        if not isinstance(self.ratios, Unset):
            ratios = []
            for ratios_item_data in self.ratios:
                ratios_item = ratios_item_data.to_dict()
                ratios.append(ratios_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "server": server,
                "sentence": sentence,
            }
        )
        if load is not UNSET:
            field_dict["load"] = load
        if rounds is not UNSET:
            field_dict["rounds"] = rounds
        if ratios is not UNSET:
            field_dict["ratios"] = ratios

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.endpoint_ratio import EndpointRatio  # noqa: PLC0415
        from ..models.endpoint_round import EndpointRound  # noqa: PLC0415
        from ..models.load_result import LoadResult  # noqa: PLC0415
        from ..models.loaded_server import LoadedServer  # noqa: PLC0415

        d = dict(src_dict)
        server = LoadedServer.from_dict(d.pop("server"))

        sentence = d.pop("sentence")

        def _parse_load(data: object) -> LoadResult | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                load_type_0 = LoadResult.from_dict(data)

                return load_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LoadResult | None | Unset, data)

        load = _parse_load(d.pop("load", UNSET))

        _rounds = d.pop("rounds", UNSET)
        rounds: list[EndpointRound] | Unset = UNSET
        if _rounds is not UNSET:
            rounds = []
            for rounds_item_data in _rounds:
                rounds_item = EndpointRound.from_dict(rounds_item_data)

                rounds.append(rounds_item)

        _ratios = d.pop("ratios", UNSET)
        ratios: list[EndpointRatio] | Unset = UNSET
        if _ratios is not UNSET:
            ratios = []
            for ratios_item_data in _ratios:
                ratios_item = EndpointRatio.from_dict(ratios_item_data)

                ratios.append(ratios_item)

        endpoint_result = cls(
            server=server,
            sentence=sentence,
            load=load,
            rounds=rounds,
            ratios=ratios,
        )

        return endpoint_result
