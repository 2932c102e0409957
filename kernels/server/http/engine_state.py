"""What a server knows of its engine, and who is told of it."""

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernels.server.http.errors import ApiError
from kernels.server.messages import EngineReport, Ready


@dataclass
class EngineState:
    """Whether an engine serves, what it does instead, and what it counts."""

    ready: Ready | None = None
    phase: str | None = None
    """What the engine does while it starts; None if there is no engine."""
    began: float = 0.0
    """When it was started, by `time.monotonic()`, which all processes of a machine share."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The seconds of each phase of the last start that ended."""
    declined: str | None = None
    report: EngineReport = field(default_factory=EngineReport)
    """The newest report of the engine."""
    ended: EngineReport = field(default_factory=EngineReport)
    """The last reports of the engines before it together, whose counters go on."""
    not_started: str | None = None
    """Why the last try to start a dead engine again has failed; None once one has been started."""
    restarts: int = 0
    hangs: int = 0

    @property
    def status_line(self) -> str:
        """What the engine does, for people: `ready`, or why not yet."""
        if self.ready is not None:
            return "ready"
        if self.phase is None:
            tried = "" if self.not_started is None else f"; the last try failed: {self.not_started}"
            return f"the engine has ended and is started again{tried}"
        return f"the engine is starting: {self.phase}, {time.monotonic() - self.began:.0f} s since its start"

    @property
    def counted(self) -> EngineReport:
        """The newest report, with the counters of earlier engines added."""
        return self.report.counting(self.ended)


class EngineListener(Protocol):
    """Who is told what an engine says: the client of one web server, or those of several processes."""

    def state_changed(self, state: EngineState) -> None:
        """The engine became ready, began a phase, declined, died, or reported."""

    def received(self, message: Any) -> None:
        """EngineOutputs of requests or vectors of texts have come."""

    def engine_died(self, error: ApiError) -> None:
        """Open requests get this error."""

    def end_open(self) -> None:
        """Ends all open requests with an error, and those that still come, because the server ends."""
