"""A traffic description on its way to a server: the generator that sends it, and a first request before it."""

import time
from dataclasses import dataclass
from pathlib import Path

from kernels.load.connection import Address, Connections
from kernels.load.exchange import Exchange
from kernels.load.generator import Generator, Limits, Load
from kernels.load.planned import PlannedRequest
from workers.documents.traffic import ClosedLoop, Traffic
from workers.traffic.planned import requests
from workers.traffic.prompts import PATHS, Api, Prompts, TokenScale, body


@dataclass(frozen=True)
class Target:
    """What load is put on: a server, one of its models, and the API that is used."""

    address: Address
    model: str
    api: Api = "completions"

    @property
    def streamed(self) -> bool:
        """Whether its answers come as events."""
        return self.api != "embeddings"


def generator(target: Target, traffic: Traffic, folder: Path, limits: Limits, scale: TokenScale) -> Generator:
    """The generator of a traffic description; recordings are looked for in `folder`.

    Its `run` raises BrokenRecording when a broken line is reached.
    """
    prompts = Prompts(traffic, scale)
    closed = isinstance(traffic.arrivals or ClosedLoop(), ClosedLoop)
    load = Load(
        requests(traffic, folder),
        lambda planned: body(target.api, target.model, prompts.text(planned), planned, traffic),
        traffic.concurrency if closed else None,
        PATHS[target.api],
        target.streamed,
        traffic.time_out_s,
    )
    return Generator(target.address, load, limits)


async def probe(target: Target, traffic: Traffic, words: int) -> Exchange:
    """One request of `words` words and two tokens, before the load: whether the server answers, and how it counts."""
    planned = PlannedRequest(-words, None, 0.0, words, 2)
    content = body(target.api, target.model, Prompts(traffic, TokenScale()).text(planned), planned, traffic)
    exchange = Exchange(planned, time.monotonic_ns(), begun_ns=time.monotonic_ns())
    connections = Connections(target.address)
    await connections.send(PATHS[target.api], content, target.streamed, exchange, traffic.time_out_s)
    connections.close()
    return exchange
