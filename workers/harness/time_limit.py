"""Ends work in this process that takes too long."""

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
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raises TimeLimitExceeded inside the block after `seconds`; `what` is the sentence's subject, such as *building*.

    SIGALRM ends the block, so a call that returns to Python only late is ended late. Infinite seconds, and threads
    other than the main one, have no limit. Where the work catches TimeLimitExceeded and raises another exception, or
    adds to its message as torch.fx does, it is raised anew.
    """
    if seconds == float("inf") or threading.current_thread() is not threading.main_thread():
        yield
        return

    words = f"{what} was ended after {seconds:.0f} s"
    ended: list[int] = []

    def stop(signum: int, frame: FrameType | None) -> NoReturn:
        ended.append(signum)
        raise TimeLimitExceeded(words)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), AGAIN_SECONDS)
    try:
        yield
    except Exception as error:
        if ended:
            raise TimeLimitExceeded(words) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
