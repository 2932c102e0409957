"""One list of requests sent by several processes: one of them reads some twenty thousand events a second at most."""

import asyncio
import multiprocessing
import time
from dataclasses import dataclass

from kernels.load import sockets
from kernels.load.connection import Address
from kernels.load.exchange import Exchange
from kernels.load.generator import MOST_IN_FLIGHT, Generator, Limits, Load, Sent
from kernels.load.lists import RequestList

USERS_OF_A_PROCESS = 8
"""Eight users of a fast server read some ten thousand events a second."""
BEGIN_SECONDS = 2.0
"""Processes that send one open load begin together, so long after they were told to: each has to start."""


@dataclass(frozen=True)
class Sending:
    """A list to be sent: to `address`, for `model`; by `users` in a closed loop, or at its own times.

    Sending stops after `seconds`. `processes` share the list and the users.
    """

    address: Address
    model: str
    requests: RequestList
    users: int | None
    seconds: float = 600.0
    time_out_s: float = 300.0
    processes: int = 1

    def run(self) -> Sent:
        """What came back, in the order of the intended times. Counting begins with the first request."""
        if self.processes == 1:
            return _send(self, 0, 0)
        begin_ns = time.monotonic_ns() + round(BEGIN_SECONDS * 1e9)
        with multiprocessing.get_context("spawn").Pool(self.processes) as pool:
            found = pool.starmap(_send, [(self, part, begin_ns) for part in range(self.processes)], chunksize=1)
        return merged(found)


def _send(sending: Sending, part: int, begin_ns: int) -> Sent:
    parts, users = sending.processes, sending.users
    sockets.allow(MOST_IN_FLIGHT)
    own = sending.requests.share(part, parts)
    load = Load(
        iter(own.planned),
        lambda planned: own.body(sending.model, planned),
        users and users // parts + (part < users % parts),
        time_out_s=sending.time_out_s,
    )
    time.sleep(max(0, begin_ns - time.monotonic_ns()) / 1e9)
    return asyncio.run(Generator(sending.address, load, Limits(sending.seconds)).run())


def merged(parts: list[Sent]) -> Sent:
    """What several generators sent, as one. Sending stopped when the first of them stopped."""
    exchanges: list[Exchange] = sorted((one for each in parts for one in each.exchanges), key=lambda x: x.intended_ns)
    return Sent(
        counted_from_ns=min(each.counted_from_ns for each in parts),
        stopped_ns=min(each.stopped_ns for each in parts),
        exchanges=exchanges,
        loop_ns=[late for each in parts for late in each.loop_ns],
        overrun=any(each.overrun for each in parts),
    )
