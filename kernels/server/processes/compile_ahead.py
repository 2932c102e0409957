"""The process that compiles what an engine will need, while the engine imports torch and reads its weights. Imports
without torch.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from kernels.measure.gpu_entry import gpu_of_host
from kernels.server.spec import Spec

MAKE = (
    "import pickle, sys; from kernels.server.execution.compiling import make_ahead; "
    "make_ahead(*pickle.load(sys.stdin.buffer))"
)

MOST_SECONDS = 600.0
"""A start waits no longer: what is not compiled then is compiled by the engine."""


@contextmanager
def compile_ahead(spec: Spec) -> Iterator[Callable[[], object]]:
    """Starts the process where the host has GPUs of one known class; what comes waits for its end. It does not outlive
    the block. The process takes no GPU.
    """
    gpu = None if spec.device == "cpu" else gpu_of_host()
    if gpu is None:
        yield lambda: None
        return
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", MAKE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=hidden, start_new_session=True) as process:
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has died, and the engine compiles itself
                process.stdin.write(pickle.dumps((spec, gpu)))
                process.stdin.close()
            yield partial(_wait, process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # and those that it has started


def _wait(process: "subprocess.Popen[bytes]") -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(MOST_SECONDS)
