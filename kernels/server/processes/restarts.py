"""A process that is started again when it dies, after a pause that grows while it does not come up, and whether an
engine still works: it answers when it is asked, between two steps or while it waits.
"""

import asyncio
import logging
from collections.abc import Callable
from multiprocessing.process import BaseProcess

logger = logging.getLogger(__name__)
RESTART_SECONDS = 1.0
"""The pause before a dead process is started again; doubled by each death before it is ready, or failure."""
LONGEST_PAUSE = 60.0
REAP_SECONDS = 5.0
"""How long the end of a dead process is waited for, so that its exit code is known."""
LOOK_SECONDS = 0.02


class Restarts:
    """The restarts of one process. `name` is what the log calls it, `start` starts it."""

    def __init__(self, name: str, start: Callable[[], None], failed: Callable[[str], None] = lambda why: None) -> None:
        """`start` raises OSError or MemoryError where there is no room for the process; `failed` is then told why."""
        self._name, self._start, self._failed = name, start, failed
        self._pause = RESTART_SECONDS

    async def again(self, ended: BaseProcess, was_ready: bool) -> None:
        """Starts the process again after `ended`, which is dead or dies now. Ends once it has been started, however
        often that fails before. `was_ready`: whether `ended` was ready before it died.
        """
        self._pause = RESTART_SECONDS if was_ready else _longer(self._pause)
        await end_of(ended, REAP_SECONDS)
        reason = f"has ended (exit code {ended.exitcode})"
        while True:
            logger.error("%s %s; it is started again in %g s", self._name, reason, self._pause)
            await asyncio.sleep(self._pause)
            try:
                return self._start()
            except (OSError, MemoryError) as error:
                why = str(error) or "no memory is free"
            reason = f"was not started: {why}"
            self._pause = _longer(self._pause)
            self._failed(why)


def _longer(pause: float) -> float:
    return min(LONGEST_PAUSE, 2 * pause)


async def end_of(process: BaseProcess, seconds: float) -> None:
    """Waits so many seconds at most for the end of a process, and reaps it, without a thread."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while process.exitcode is None and loop.time() < until:
        await asyncio.sleep(LOOK_SECONDS)


ON_GPU_SECONDS, ON_CPU_SECONDS = 60.0, 600.0
"""After so long without a sign of life an engine counts as hung. Steps of a large model on a CPU are long."""
LOOKS = 10
"""How often it is looked for meanwhile. Looks are counted, not time: a machine that slept has not hung."""


class EngineHeartbeat:
    """The signs of life of one engine, from when it is ready on. `ask` asks the engine for one."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self.beat = True
        """Whether there was one since the last look."""

    async def end(self, seconds: float) -> None:
        """Returns once there was none for `seconds` though it was asked for."""
        silent = 0
        while silent < LOOKS:
            if self.beat:
                silent, self.beat = 0, False
                self._ask()
            await asyncio.sleep(seconds / LOOKS)
            silent += 1
