"""Divides a load among several processes, since one process reads at most about 20,000 events a second."""

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
    MAX_IN_FLIGHT,
    PROGRESS_SECONDS,
    Generator,
    LoadDuration,
    LoadTrace,
    OnProgress,
    PlannedLoad,
    ignore_progress,
)
from kernels.load.planned import PlannedRequest
from kernels.load.sender_process import SenderProcess
from kernels.measure.cpu_threads import usable_cpus

USERS_OF_A_PROCESS = 8
EVENTS_OF_A_PROCESS = 5_000
"""The events a second that a process is given: a fourth of what it can read, since arrivals come in bursts."""
EVENTS_OF_A_REQUEST = 8
"""Writing and sending one request takes as long as reading this many events. Measured on 2 cores of an Intel Xeon: 0.10
to 0.18 ms of processor time for a request of 128 to 1,024 words, 0.015 ms for an event."""
SAMPLED_REQUESTS = 10_000
"""The number of processes of an open loop follows from the times and lengths of its first requests, this many."""
CPUS_OF_A_SERVER = 6
"""The CPUs that senders leave to a server on the same machine: an engine, what divides its tokens, four web servers."""


@dataclass(frozen=True)
class DistributedLoad:
    """A load that `processes` processes send to `address`, each its share. `load` makes the whole load, the same each
    time; it is pickled, so a module's function or a `functools.partial` of one.
    """

    address: Address
    load: Callable[[], PlannedLoad]
    limits: LoadDuration
    processes: int = 1

    async def run(self, progress: OnProgress = ignore_progress) -> LoadTrace:
        """Sends the load; the exchanges come by intended time. Raises SenderDied, and what making a load raises."""
        if self.processes == 1:
            sockets.allow(2 * MAX_IN_FLIGHT)
            return await Generator(self.address, self.load(), self.limits).run(progress)
        with tempfile.TemporaryFile() as shared, contextlib.ExitStack() as running:
            shared.truncate(bytes_of(self.processes))
            keep = [shared.fileno(), *([] if self.address.handoff_fd is None else [self.address.handoff_fd])]
            parts = [ProcessLoad(self, number, shared.fileno()) for number in range(self.processes)]
            processes = [running.enter_context(SenderProcess(part, keep)) for part in parts]
            for process in processes:
                await process.answer()  # it is ready
            begin_ns = time.monotonic_ns() + LEAD_NS
            for process in processes:
                process.tell(begin_ns)
            showing = asyncio.create_task(_report_progress(Counts(self.processes, shared.fileno()), progress))
            answers = [asyncio.create_task(process.answer()) for process in processes]
            try:
                return merge_results(await asyncio.gather(*answers))
            finally:
                for task in (showing, *answers):
                    task.cancel()


@dataclass(frozen=True)
class ProcessLoad:
    """One process's share: every `processes`-th request from `number` on. `counts` is their shared file."""

    sending: DistributedLoad
    number: int
    counts: int

    def generator(self) -> Generator:
        """The generator that sends this share."""
        load, parts = self.sending.load(), self.sending.processes
        part = replace(
            load,
            requests=itertools.islice(load.requests, self.number, None, parts),
            users=load.users and load.users // parts + (self.number < load.users % parts),
        )
        counts = Counts(parts, self.counts, self.number)
        return Generator(self.sending.address, part, self.sending.limits, counts)


async def _report_progress(counts: Counts, progress: OnProgress) -> None:
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        progress(counts)


def merge_results(parts: list[LoadTrace]) -> LoadTrace:
    """Several generators' loads as one. A closed loop's steady part ends when the first stops sending, an open loop's
    when the last does, or, if some gave up, the first.
    """
    exchanges = [one for part in parts for one in part.exchanges]
    exchanges.sort(key=lambda exchange: (exchange.intended_ns, exchange.planned.index))
    overrun = any(part.overrun for part in parts)
    open_loop = any(exchange.planned.at_s is not None for exchange in exchanges)
    stops = [part.stopped_ns for part in parts]
    return LoadTrace(
        counted_from_ns=min(part.counted_from_ns for part in parts),
        stopped_ns=max(stops) if open_loop and not overrun else min(stops),
        exchanges=exchanges,
        loop_ns=[late for part in parts for late in part.loop_ns],
        overrun=overrun,
        parts=parts,
    )


def max_processes(server_is_local: bool) -> int:
    """The most processes that send load from this machine; `here` says that the server runs on it as well."""
    return max(1, usable_cpus() - (CPUS_OF_A_SERVER if server_is_local else 0))


def processes_for(users: int | None, requests: Iterable[PlannedRequest], seconds: float) -> int:
    """Processes for a closed loop of `users`, or an open one by the events a second due within `seconds`."""
    if users:
        return math.ceil(users / USERS_OF_A_PROCESS)
    events, last_s = 0, 0.0
    for request in itertools.islice(requests, SAMPLED_REQUESTS):
        if (request.at_s or 0) >= seconds:
            break
        events += EVENTS_OF_A_REQUEST + min(request.output_tokens, request.cancel_after or request.output_tokens)
        last_s = request.at_s or 0
    return max(1, math.ceil(events / max(last_s, 1) / EVENTS_OF_A_PROCESS))
