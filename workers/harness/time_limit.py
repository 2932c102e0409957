"""Ends work in this process that takes too long, as a compiler's search may."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

AGAIN_SECONDS = 5.0
"""Work that catches TimeLimitExceeded and goes on gets it again after so many seconds."""


class TimeLimitExceeded(Exception):
    """The work was ended; the message is a sentence without its full stop."""


@contextmanager
def no_longer_than(seconds: float, what: str) -> Iterator[None]:
    """Raises TimeLimitExceeded inside the block after `seconds`; `what` is the sentence's subject, such as *building*.

    SIGALRM ends the block, so a call that returns to Python only late is ended late. Infinite seconds, and threads
    other than the main one, have no limit. Where the work catches TimeLimitExceeded and raises another exception,
    TimeLimitExceeded is raised in its place.
    """
    if seconds == float("inf") or threading.current_thread() is not threading.main_thread():
        yield
        return

    ended: list[TimeLimitExceeded] = []

    def stop(signum: int, frame: FrameType | None) -> NoReturn:
        ended.append(TimeLimitExceeded(f"{what} was ended after {seconds:.0f} s"))
        raise ended[-1]

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), AGAIN_SECONDS)
    try:
        yield
    except Exception as error:
        if ended and error is not ended[-1]:
            raise ended[-1] from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
