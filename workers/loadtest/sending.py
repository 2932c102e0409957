"""A traffic description on its way to a server: how it is sent, and a first request before it."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernels.load.connection import Address, Connections
from kernels.load.exchange import Exchange
from kernels.load.generator import LoadDuration, PlannedLoad
from kernels.load.planned import PlannedRequest
from kernels.load.sharing import DistributedLoad, max_processes, processes_for
from workers.documents.traffic import Traffic
from workers.loadtest.planned import requests
from workers.loadtest.prompts import PATHS, Api, PromptTexts, TokenScale, body


@dataclass(frozen=True)
class LoadTarget:
    """What load is put on: a server, one of its models, and the API that is used.

    `most_processes` send the load at most; None for those that the CPUs of this machine allow. Every `ids_every`-th
    request asks for its token ids; 0: none does. `refused`: the fields of REFUSABLE that it does not take.
    """

    address: Address
    model: str
    api: Api = "completions"
    most_processes: int | None = None
    ids_every: int = 0
    refused: tuple[str, ...] = ()

    @property
    def streamed(self) -> bool:
        return self.api != "embeddings"

    @property
    def max_processes_here(self) -> int:
        return self.most_processes or max_processes(server_is_local=self.address.here)


def sending(
    target: LoadTarget, traffic: Traffic, folder: Path, limits: LoadDuration, scale: TokenScale
) -> DistributedLoad:
    """The traffic, sent by as many processes as it takes. `run` raises InvalidRecording at a broken line."""
    users = None if traffic.open_loop else traffic.concurrency
    wanted = processes_for(users, requests(traffic, folder), limits.seconds)
    load = partial(_load, target, traffic, folder, scale)
    return DistributedLoad(target.address, load, limits, min(target.max_processes_here, wanted))


def _load(target: LoadTarget, traffic: Traffic, folder: Path, scale: TokenScale) -> PlannedLoad:
    prompts = PromptTexts(traffic, scale)

    def written(planned: PlannedRequest) -> bytes:
        ids = bool(target.ids_every) and planned.index % target.ids_every == 0
        return body(target.api, target.model, prompts.text(planned), planned, traffic, target.refused, ids)

    return PlannedLoad(
        requests(traffic, folder),
        written,
        None if traffic.open_loop else traffic.concurrency,
        PATHS[target.api],
        target.streamed,
        traffic.time_out_s,
    )


async def probe(target: LoadTarget, traffic: Traffic, words: int) -> Exchange:
    """One request of `words` words and two tokens, before the load: whether the server answers, and how it counts."""
    planned = PlannedRequest(-words, None, 0.0, words, 2)
    text = PromptTexts(traffic, TokenScale()).text(planned)
    content = body(target.api, target.model, text, planned, traffic, target.refused)
    exchange = Exchange(planned, time.monotonic_ns(), begun_ns=time.monotonic_ns())
    connections = Connections(target.address)
    await connections.send(PATHS[target.api], content, target.streamed, exchange, traffic.time_out_s)
    connections.close()
    return exchange
