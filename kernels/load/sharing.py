"""One load sent by several processes: one of them reads some twenty thousand events a second at most."""

import asyncio
import contextlib
import itertools
import math
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kernels.load import sockets
from kernels.load.connection import Address
from kernels.load.counts import Counts, bytes_of
from kernels.load.generator import (
    LEAD_NS,
    MOST_IN_FLIGHT,
    PROGRESS_SECONDS,
    Generator,
    LoadDuration,
    PlannedLoad,
    Progress,
    Sent,
    quiet,
)
from kernels.load.planned import PlannedRequest
from kernels.load.sender_process import SenderProcess
from kernels.measure.cpu_threads import usable_cpus

USERS_OF_A_PROCESS = 8
EVENTS_OF_A_PROCESS = 5_000
"""Events a second: a fourth of what a process reads at most, since arrivals come in bursts."""
EVENTS_OF_A_REQUEST = 8
"""Writing and sending a request takes the time of reading so many events: 0.10 to 0.18 ms of processor time for 128 to
1,024 words, where an event takes 0.015 ms, on 2 cores of an Intel Xeon."""
LOOKED_AT = 10_000
"""Requests of an open loop whose times and lengths say how many processes it takes."""
CPUS_OF_A_SERVER = 4
"""CPUs that are left to a server on the same machine."""


@dataclass(frozen=True)
class Sending:
    """A load to be sent to `address` by so many processes, which share its requests and its users.

    `load` makes the whole load, the same each time. It is pickled for each process, so it is a function of a module, or
    a `functools.partial` of one.
    """

    address: Address
    load: Callable[[], PlannedLoad]
    limits: LoadDuration
    processes: int = 1

    async def run(self, progress: Progress = quiet) -> Sent:
        """What came back, in the order of the intended times. Raises what the requests raise, and SenderDied."""
        if self.processes == 1:
            sockets.allow(2 * MOST_IN_FLIGHT)
            return await Generator(self.address, self.load(), self.limits).run(progress)
        with tempfile.TemporaryFile() as shared, contextlib.ExitStack() as running:
            shared.truncate(bytes_of(self.processes))
            keep = [shared.fileno(), *([] if self.address.handing is None else [self.address.handing])]
            parts = [LoadShare(self, number, shared.fileno()) for number in range(self.processes)]
            processes = [running.enter_context(SenderProcess(part, keep)) for part in parts]
            for each in processes:
                await each.answer()  # it is ready
            begin_ns = time.monotonic_ns() + LEAD_NS
            for each in processes:
                each.tell(begin_ns)
            showing = asyncio.create_task(_show(Counts(self.processes, shared.fileno()), progress))
            answers = [asyncio.create_task(each.answer()) for each in processes]
            try:
                return merged(await asyncio.gather(*answers))
            finally:
                for task in (showing, *answers):
                    task.cancel()


@dataclass(frozen=True)
class LoadShare:
    """The share of one process: every `processes`-th request from `number` on, and as many of the users.

    `counts` is the descriptor of the file by which the processes share their counters.
    """

    sending: Sending
    number: int
    counts: int

    def generator(self) -> Generator:
        """What sends it."""
        whole, parts = self.sending.load(), self.sending.processes
        own = replace(
            whole,
            requests=itertools.islice(whole.requests, self.number, None, parts),
            users=whole.users and whole.users // parts + (self.number < whole.users % parts),
        )
        counts = Counts(parts, self.counts, self.number)
        return Generator(self.sending.address, own, self.sending.limits, counts)


async def _show(counts: Counts, progress: Progress) -> None:
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        progress(counts)


def merged(parts: list[Sent]) -> Sent:
    """What several generators sent, as one.

    In a closed loop the steady part ends with the first user who stops; in an open one when nothing is left to send,
    or when the first generator gave up.
    """
    exchanges = [one for each in parts for one in each.exchanges]
    exchanges.sort(key=lambda each: (each.intended_ns, each.planned.index))
    overrun = any(each.overrun for each in parts)
    open_loop = any(each.planned.at_s is not None for each in exchanges)
    stops = [each.stopped_ns for each in parts]
    return Sent(
        counted_from_ns=min(each.counted_from_ns for each in parts),
        stopped_ns=max(stops) if open_loop and not overrun else min(stops),
        exchanges=exchanges,
        loop_ns=[late for each in parts for late in each.loop_ns],
        overrun=overrun,
        parts=parts,
    )


def most_processes(here: bool) -> int:
    """How many processes may send load from this machine; `here`: the server runs on it as well."""
    return max(1, usable_cpus() - (CPUS_OF_A_SERVER if here else 0))


def processes_for(users: int | None, requests: Iterable[PlannedRequest], seconds: float) -> int:
    """How many processes send so many users, or the requests that an open loop has at their times in `seconds`."""
    if users:
        return math.ceil(users / USERS_OF_A_PROCESS)
    events, last_s = 0, 0.0
    for each in itertools.islice(requests, LOOKED_AT):
        if (each.at_s or 0) >= seconds:
            break
        events += EVENTS_OF_A_REQUEST + min(each.output_tokens, each.cancel_after or each.output_tokens)
        last_s = each.at_s or 0
    return max(1, math.ceil(events / max(last_s, 1) / EVENTS_OF_A_PROCESS))
