"""The life of an engine's process, of either kind: start, service, end. Imports without torch."""

import errno
import os
import re
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

from kernels.runners.plan_files import PlanRefused
from kernels.server.messages import Declined, Ready, Starting
from kernels.server.processes.pipes import ignore_signals
from kernels.server.starting import Phases, settle

Engine = TypeVar("Engine")
OF_MEMORY = re.compile("out of memory|allocate memory|ALLOC_FAILED|size calculation overflow|integer multiplication")
"""What torch and CUDA write where the memory does not suffice."""
NO_ROOM = {errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE}
"""What the system says where there is no room for more memory, processes or open files."""
GONE = (EOFError, BrokenPipeError, ConnectionResetError)
"""What the pipe raises when the server tells the process to end, or has ended itself."""


def live(
    build: Callable[[Phases], tuple[Engine, Ready]], serve: Callable[[Engine, Connection], None], connection: Connection
) -> None:
    """Builds an engine and serves until stopped or the pipe is closed; tells in a sentence why a start fails."""
    ignore_signals()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # the server says its phase, and its log has lines
    try:
        try:
            engine, ready = build(Phases(lambda name: connection.send(Starting(name))))
        except GONE:
            raise
        except (ValueError, OSError, PlanRefused) as error:
            connection.send(Declined(str(error), for_now=isinstance(error, OSError) and error.errno in NO_ROOM))
            return
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and not OF_MEMORY.search(str(error)):
                raise
            connection.send(Declined(_too_large(error), for_now=True))
            return
        settle()
        connection.send(ready)
        serve(engine, connection)
    except GONE:
        return


def _too_large(error: BaseException) -> str:
    reason = " ".join(str(error).split("\n")[0].split()) or type(error).__name__
    return (
        f"the memory does not hold the model and a server of this size, which --max-num-seqs, --max-model-len and "
        f"--kv-gib make smaller: {reason}"
    )
