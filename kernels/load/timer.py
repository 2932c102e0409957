"""Waiting until a moment to the microsecond: asyncio rounds its own timers up to whole milliseconds."""

import asyncio
import ctypes
import os
import sys
import time

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
