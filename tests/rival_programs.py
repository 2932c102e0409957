"""Programs that use the CPU beside a test, and are no descendants of it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rival_programs(count: int) -> Iterator[None]:
    """So many programs that compute without end inside the block; they end themselves if the test is killed."""
    started = [
        subprocess.run(
            ["sh", "-c", "timeout 120 sh -c 'while :; do :; done' >/dev/null & echo $!"],
            stdout=subprocess.PIPE,
            check=True,
        )
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for done in started:
            os.kill(int(done.stdout), signal.SIGTERM)
