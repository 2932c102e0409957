"""Whether an engine still works: it answers when it is asked, between two steps or while it waits."""

import asyncio
from collections.abc import Callable

ON_GPU_SECONDS, ON_CPU_SECONDS = 60.0, 600.0
"""After so long without a sign of life an engine counts as hung. Steps of a large model on a CPU are long."""
LOOKS = 10
"""How often it is looked for meanwhile. Looks are counted, not time: a machine that slept has not hung."""


class EngineHeartbeat:
    """The signs of life of one engine, from when it is ready on. `ask` asks the engine for one."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self.heard = True
        """Whether there was one since the last look."""

    async def end(self, seconds: float) -> None:
        """Returns once there was none for `seconds` though it was asked for."""
        silent = 0
        while silent < LOOKS:
            if self.heard:
                silent, self.heard = 0, False
                self._ask()
            await asyncio.sleep(seconds / LOOKS)
            silent += 1
