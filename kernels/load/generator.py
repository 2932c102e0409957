"""The load generator: sends planned requests at their times and records each one's exchange with the server."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kernels.load.connection import Address, Connections
from kernels.load.counts import ENDED, FAILED, OVERRUN, SENT, Counts
from kernels.load.exchange import Exchange
from kernels.load.planned import PlannedRequest
from kernels.measure.latency import NS_PER_MS

MAX_IN_FLIGHT = 8192
REPEATED_AFTER_NS = 200_000_000
"""The pause of a user of a closed loop after a failed request; without it a failing server would be flooded."""
TICK_SECONDS = 0.01
"""The time between two measurements of the event loop's own delay."""
PROGRESS_SECONDS = 0.5
LEAD_NS = 50_000_000
"""The time from the call of `run` to the beginning of sending, unless the caller says when to begin."""
OnProgress = Callable[[Counts], None]
"""Called every PROGRESS_SECONDS while load is sent."""


def ignore_progress(counts: Counts) -> None:
    """Shows no progress."""


@dataclass(frozen=True)
class PlannedLoad:
    """A load's requests, in order; `body` writes the JSON posted to `/v1` + `path`. With `users` a closed loop, each of
    whom sends when answered; without, each is sent at its `at_s`. A request fails `time_out_s` after it was due.
    """

    requests: Iterator[PlannedRequest]
    body: Callable[[PlannedRequest], bytes]
    users: int | None
    path: str = "/completions"
    streamed: bool = True
    time_out_s: float = 300.0


@dataclass(frozen=True)
class LoadDuration:
    """Sending stops `seconds` after its beginning. Requests of the first `warm_up_s` seconds are not counted."""

    seconds: float
    warm_up_s: float = 0.0


@dataclass
class LoadTrace:
    """What a generator sent: every exchange, by intended time, and the generator's own delays.

    Times are nanoseconds of the monotonic clock. The load was steady from `counted_from_ns`, the end of the warm-up, to
    `stopped_ns`, when sending stopped. `loop_ns` holds the delay of each of the event loop's regular ticks. `overrun`
    says that sending stopped because MAX_IN_FLIGHT requests were open. If several processes sent the load, `parts`
    holds what each of them sent.
    """

    counted_from_ns: int
    stopped_ns: int = 0
    exchanges: list[Exchange] = field(default_factory=list)
    loop_ns: list[int] = field(default_factory=list)
    overrun: bool = False
    parts: list["LoadTrace"] = field(default_factory=list)

    @property
    def by_process(self) -> list["LoadTrace"]:
        """What each process sent, since each has delays of its own."""
        return self.parts or [self]

    def is_steady(self, at_ns: int) -> bool:
        """Whether a time lies in the steady part: after the warm-up, and before sending stopped."""
        return self.counted_from_ns <= at_ns < self.stopped_ns

    @property
    def counted(self) -> list[Exchange]:
        """The exchanges that were due in the steady part."""
        return [exchange for exchange in self.exchanges if self.is_steady(exchange.intended_ns)]

    @property
    def steady_seconds(self) -> float:
        """How long the load was steady."""
        return max(self.stopped_ns - self.counted_from_ns, 0) / 1e9

    def token_times_ns(self, since_ns: int, until_ns: int) -> list[int]:
        """The times of tokens from `since_ns` to before `until_ns`, including those of the warm-up's requests."""
        return [at for exchange in self.exchanges for at in exchange.token_ns if since_ns <= at < until_ns]

    @property
    def send_delays_ms(self) -> list[float]:
        """The ms from each request's intended time until the generator began with it, including the warm-up's."""
        return [(exchange.begun_ns - exchange.intended_ns) / NS_PER_MS for exchange in self.exchanges]

    @property
    def loop_delays_ms(self) -> list[float]:
        """The delay in ms of each of the event loop's regular ticks."""
        return [late / NS_PER_MS for late in self.loop_ns]


class Generator:
    """Sends a load to one server. Use it once."""

    def __init__(self, address: Address, load: PlannedLoad, limits: LoadDuration, counts: Counts | None = None) -> None:
        """`counts` may be shared with processes that send other parts of the same load."""
        self._address, self._load, self._limits = address, load, limits
        self._counts = counts or Counts()

    async def run(self, progress: OnProgress = ignore_progress, start_ns: int = 0) -> LoadTrace:
        """Sends until the time is over or no request is left, from `start_ns` (0: LEAD_NS from now) on, then waits for
        answers. Raises what requests or `body` raise.
        """
        self._connections = Connections(self._address)
        self._timer = WakeUpTimer()
        start_ns = start_ns or time.monotonic_ns() + LEAD_NS
        self._start_ns, self._end_ns = start_ns, start_ns + round(self._limits.seconds * 1e9)
        self.sent = LoadTrace(start_ns + round(self._limits.warm_up_s * 1e9))
        ticking = asyncio.create_task(self._tick(progress))
        try:
            if self._load.users:
                await self._closed_loop(self._load.users)
            else:
                await self._open_loop()
        finally:
            ticking.cancel()
            self._connections.close()
            self._timer.close()
        self.sent.exchanges.sort(key=lambda exchange: exchange.intended_ns)
        return self.sent

    async def _open_loop(self) -> None:
        tasks: set[asyncio.Task[Exchange]] = set()
        try:
            for planned in self._load.requests:
                due_ns = self._start_ns + round((planned.at_s or 0) * 1e9)
                if due_ns >= self._end_ns:
                    break
                content = self._load.body(planned)
                await self._timer.wait_until(due_ns)
                if self._counts.open >= MAX_IN_FLIGHT or self._counts.total(OVERRUN):
                    self._counts.add(OVERRUN)
                    self.sent.overrun = True
                    break
                task = asyncio.create_task(self._send(planned, content, due_ns))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                self._end_ns = time.monotonic_ns()
            if self.sent.overrun:
                self._end_ns = time.monotonic_ns()
            await self._timer.wait_until(self._end_ns)
            self.sent.stopped_ns = self._end_ns
            await asyncio.gather(*tasks)
        finally:
            for open_task in tasks:
                open_task.cancel()

    async def _closed_loop(self, users: int) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(users):
                    group.create_task(self._user())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        self.sent.stopped_ns = self.sent.stopped_ns or min(self._end_ns, time.monotonic_ns())

    async def _user(self) -> None:
        free_ns = self._start_ns
        for planned in self._load.requests:
            due_ns = free_ns + round(planned.think_s * 1e9)
            if due_ns >= self._end_ns:
                break
            content = self._load.body(planned)
            await asyncio.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
            exchange = await self._send(planned, content, due_ns)
            free_ns = exchange.end_ns + (REPEATED_AFTER_NS if exchange.error else 0)
        # the first user who stops ends the steady part
        self.sent.stopped_ns = self.sent.stopped_ns or min(self._end_ns, time.monotonic_ns())

    async def _send(self, planned: PlannedRequest, content: bytes, due_ns: int) -> Exchange:
        """Sends one request and waits for its end."""
        exchange = Exchange(planned, due_ns, begun_ns=time.monotonic_ns())
        self.sent.exchanges.append(exchange)
        self._counts.add(SENT)
        load = self._load
        await self._connections.send(load.path, content, load.streamed, exchange, load.time_out_s)
        if exchange.error:
            self._counts.add(FAILED)
        self._counts.add(ENDED)
        return exchange

    async def _tick(self, progress: OnProgress) -> None:
        loop = asyncio.get_running_loop()
        due, shown = loop.time() + TICK_SECONDS, loop.time()
        while True:
            await asyncio.sleep(due - loop.time())
            now = loop.time()
            self.sent.loop_ns.append(round(max(0.0, now - due) * 1e9))
            due = max(due + TICK_SECONDS, now)
            if now - shown >= PROGRESS_SECONDS:
                shown = now
                progress(self._counts)


NONBLOCK, CLOEXEC, ABSOLUTE = os.O_NONBLOCK, getattr(os, "O_CLOEXEC", 0), 1


class _Spec(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "s", "ns")]


class WakeUpTimer:
    """One waiter at a time, on Linux by a timerfd; elsewhere by asyncio's own timers. Make it inside the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, NONBLOCK | CLOEXEC) if self._libc else -1
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._ring)

    async def wait_until(self, at_ns: int) -> None:
        """Returns at `at_ns` of the monotonic clock, or at the event loop's next iteration when that has passed."""
        left_ns = at_ns - time.monotonic_ns()
        if left_ns <= 0 or self._fd < 0 or self._libc is None:
            await asyncio.sleep(max(left_ns, 0) / 1e9)
            return
        self._waiting = self._loop.create_future()
        spec = _Spec(0, 0, at_ns // 10**9, at_ns % 10**9)
        self._libc.timerfd_settime(self._fd, ABSOLUTE, ctypes.byref(spec), None)
        await self._waiting

    def close(self) -> None:
        """Gives the descriptor back."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # it was set again
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)
