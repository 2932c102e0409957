"""The phases of an engine's start: which one runs, and how long each took. Imports without torch."""

import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


class Phases:
    """Tells each phase as it begins, and keeps the seconds of those that have ended, in their order."""

    def __init__(self, tell: Callable[[str], None] = lambda phase: None) -> None:
        self._tell = tell
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What runs within counts as this phase."""
        self._tell(name)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


def settle() -> None:
    """Ends a start: Python's collector of cycles never looks again at what lives. With torch and transformers a full
    collection takes a tenth of a second or two, in which nobody is answered.
    """
    gc.collect()
    gc.freeze()


def start_line(seconds: Mapping[str, float], **facts: object) -> str:
    """A line for logs, with JSON: the seconds of a start, those of each phase in their order, and other facts."""
    rounded = {name: round(each, 2) for name, each in seconds.items()}
    return "start " + json.dumps({"seconds": round(sum(seconds.values()), 2), "phases": rounded, **facts})
