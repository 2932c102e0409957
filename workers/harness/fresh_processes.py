"""Fresh processes for measurements, forked from one that has imported everything and has never touched CUDA.

A stage's process forks it before its first stage. A measurement in a fresh process then costs no imports. Where there
is none, as in a stage by hand, a process is started.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from workers.shared.lifeline import die_with_parent

START_SECONDS = 1.0
"""What a forked process takes until it loads its model. The start of CUDA is most of it: 0.4 to 0.6 s on an H200."""
REQUEST_BYTES = 2**16
_link: socket.socket | None = None


def prepare() -> None:
    """Fork the process that forks the others, from this one, which must run one thread and not have touched CUDA."""
    global _link
    parent = os.getpid()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        die_with_parent(parent)
        _serve(theirs)
    theirs.close()
    _link = ours


def run(module: str, arguments: Sequence[str], seconds: float) -> int:
    """Run the module as `python -m` does, in a fresh process; its exit code. Raises subprocess.TimeoutExpired."""
    if _link is None:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, timeout=seconds).returncode
    _link.settimeout(None)
    _link.send(json.dumps([module, *arguments]).encode())
    pid = int(_link.recv(REQUEST_BYTES))
    _link.settimeout(seconds)
    try:
        return int(_link.recv(REQUEST_BYTES))
    except TimeoutError as error:
        os.kill(pid, signal.SIGKILL)
        _link.settimeout(None)
        _link.recv(REQUEST_BYTES)
        raise subprocess.TimeoutExpired(module, seconds) from error


def _serve(link: socket.socket) -> NoReturn:
    """Fork a process for each request; answer its id, and then its exit code."""
    while request := link.recv(REQUEST_BYTES):
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            link.close()
            die_with_parent(parent)
            _run(*json.loads(request))
        link.send(str(pid).encode())
        link.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


def _run(module: str, *arguments: str) -> NoReturn:
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit
