"""What a stage whose code was taken over would try. Prints the answer of each attempt as JSON: `done`, or the refusal.

Runs with the standard library alone: `attacks.py '{"targets": …}'`.
"""

import ctypes
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def _system(number: int, *arguments: Any) -> None:
    if LIBC.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _read(path: str) -> Callable[[], None]:
    return lambda: _open(path, "rb")


def _open(path: str, mode: str) -> None:
    with open(path, mode) as file:
        if mode == "rb":
            file.read(1)


def _connect(address: str | tuple[str, int]) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)


def _send_datagram(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"secret", ("127.0.0.1", port))


def _enter_network_of(pid: int) -> None:
    with open(f"/proc/{pid}/ns/net") as namespace:
        _system(308, namespace.fileno(), 0x40000000)


def _fork_without_end(limit: int) -> None:
    """Fork sleepers until that is refused; a limit that holds refuses before there are `limit` of them."""
    started = []
    try:
        for _ in range(limit):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            started.append(pid)
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def attacks(targets: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Each must fail."""
    worker, data = targets["worker"], targets["data"]
    shared = {"write another user's file in /dev/shm": lambda: _open(targets["shared"], "r+b")}
    return {
        **(shared if targets["shared"] else {}),
        "read the secret key": _read(f"{data}/secret_key"),
        "read the database": _read(f"{data}/db.sqlite3"),
        "read the worker token": _read(f"{data}/worker_token"),
        "read the worker's environment": _read(f"/proc/{worker}/environ"),
        "read the secret key through the worker": _read(f"/proc/{worker}/root{data}/secret_key"),
        "read the secret key through the guard": _read(f"/proc/{os.getppid()}/root{data}/secret_key"),
        "read the worker's memory": _read(f"/proc/{worker}/mem"),
        "write the worker's memory": lambda: _open(f"/proc/{worker}/mem", "r+b"),
        "list the data directory": lambda: os.listdir(data),
        "link the secret key": lambda: os.link(f"{data}/secret_key", "linked"),
        "read another organisation's model": _read(f"{data}/worker/models/foreign/config.json"),
        "read another organisation's cache": _read(f"{data}/worker/compilers/foreign/kernel"),
        "write another organisation's cache": lambda: _open(f"{data}/worker/compilers/foreign/new", "wb"),
        "write its model": lambda: _open(f"{targets['model']}/config.json", "r+b"),
        "add to its model": lambda: _open(f"{targets['model']}/new", "wb"),
        "write the program": lambda: _open(f"{targets['code']}/workers/host/child.py", "r+b"),
        "write a rendered page": lambda: _open(f"{targets['pages']}/page", "r+b"),
        "write into /tmp": lambda: os.rmdir(tempfile.mkdtemp(dir="/tmp")),
        "change a setting of the kernel": lambda: _open("/proc/sys/kernel/core_pattern", "r+b"),
        "connect to Redis": lambda: _connect(("127.0.0.1", targets["redis"])),
        "connect to the web": lambda: _connect(("127.0.0.1", targets["web"])),
        "send a datagram": lambda: _send_datagram(targets["redis"]),
        "connect to a Unix socket": lambda: _connect(f"{data}/socket"),
        "enter the worker's network": lambda: _enter_network_of(worker),
        "enter the guard's network": lambda: _enter_network_of(os.getppid()),
        "make a user namespace": lambda: _system(272, 0x10000000),
        "trace the guard": lambda: _system(101, 16, os.getppid(), None, None),
        "set up io_uring": lambda: _system(425, 1, ctypes.create_string_buffer(120)),
        "become root": lambda: os.setuid(0) if os.getuid() else _system(165, b"none", b"/tmp", b"tmpfs", 0, None),
        "signal the worker": lambda: os.kill(worker, 0),
        "signal the guard": lambda: os.kill(os.getppid(), 0),
        "fork without end": lambda: _fork_without_end(targets["processes"] + 1),
    }


def _compile() -> None:
    source = Path("tmp/hello.cpp")
    source.write_text("int main() { return 0; }")
    subprocess.run(["g++", str(source), "-o", "tmp/hello"], check=True, capture_output=True)
    subprocess.run(["tmp/hello"], check=True)


def _move_into_cache(cache: str) -> None:
    Path("tmp/made").write_text("kernel")
    os.replace("tmp/made", f"{cache}/made")


def _run_pool() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(abs, [-1, 1])


def _name_a_thread_of_another_process() -> None:
    code = "open('/proc/self/task/' + str(__import__('os').getpid()) + '/comm', 'w').write('named')"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def needs(targets: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    return {
        "read its model": _read(f"{targets['model']}/config.json"),
        "list its model": lambda: os.listdir(targets["model"]),
        "move into its cache": lambda: _move_into_cache(targets["cache"]),
        "read its cache": _read(f"{targets['cache']}/kernel"),
        "remove from its cache": lambda: shutil.rmtree(f"{targets['cache']}/old"),
        "compile": _compile,
        "share memory between processes": lambda: multiprocessing.Value("i", 1),
        "run a pool of processes": _run_pool,
        "name a thread of another process": _name_a_thread_of_another_process,
        "bind a Unix socket": lambda: socket.socket(socket.AF_UNIX).bind(f"\0attack-{os.getpid()}"),
        "read what the machine is": _read("/proc/cpuinfo"),
    }


def _answer(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except (OSError, subprocess.SubprocessError, MemoryError) as refused:
        return f"{type(refused).__name__}: {refused}"
    return "done"


def _main() -> None:
    targets = json.loads(sys.argv[1])
    if targets["allocate"]:
        block = bytearray(targets["allocate"])
        print(json.dumps({"allocated": len(block)}), flush=True)
        return
    os.makedirs("tmp", exist_ok=True)
    answers = {
        kind: {name: _answer(attempt) for name, attempt in made(targets).items()}
        for kind, made in (("needs", needs), ("attacks", attacks))
    }
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    _main()
