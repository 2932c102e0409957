"""A seccomp filter for x86-64: no sockets but Unix ones, and nothing that leaves or widens a sandbox."""

import ctypes
import errno
import platform
import socket
from collections.abc import Iterable, Sequence

from workers.confinement import system

SECCOMP = 22
FILTER_MODE = 2
X86_64 = 0xC000003E
X32_BIT = 0x40000000
ALLOW = 0x7FFF0000
ERROR = 0x00050000

SOCKET, CONNECT, CLONE, CLONE3 = 41, 42, 56, 435
NAMESPACES = 0x7E020000
"""The flags of clone and unshare that make namespaces."""
OWN_NETWORK = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Families of sockets within a network of its own; by netlink a process looks up the interfaces there."""
REFUSED = {
    "ptrace": 101,
    "pivot_root": 155,
    "mount": 165,
    "umount2": 166,
    "init_module": 175,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


class Instruction(ctypes.Structure):
    """One instruction of a classic BPF program."""

    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


def stage_filter(connects: bool = False) -> list[Instruction]:
    """What a stage may not call. A process that cannot connect still may bind, listen and use socket pairs.

    `connects`: the stage has a network of its own, where it may connect to itself by Unix sockets and by IP.
    """
    return [
        *refuse(REFUSED.values()),
        *([] if connects else refuse([CONNECT], errno.EACCES)),
        *refuse([CLONE3], errno.ENOSYS),  # its flags lie in memory; the C library then uses clone
        *_on_first_argument(SOCKET, _only(OWN_NETWORK if connects else [socket.AF_UNIX])),
        *no_namespaces(),
    ]


def _only(families: Sequence[int]) -> list[Instruction]:
    """Let a socket of none of these families fail."""
    count = len(families)
    return [*(Instruction(_EQUAL, count - at, 0, family) for at, family in enumerate(families)), _fail(errno.EACCES)]


def refuse(numbers: Iterable[int], code: int = errno.EPERM) -> list[Instruction]:
    return [part for number in numbers for part in (Instruction(_EQUAL, 0, 1, number), _fail(code))]


def no_namespaces() -> list[Instruction]:
    return _on_first_argument(CLONE, [Instruction(_ANY_BIT, 0, 1, NAMESPACES), _fail(errno.EPERM)])


def install(rules: list[Instruction]) -> None:
    """Apply the rules to this process and its children, for good. Needs no_new_privs or CAP_SYS_ADMIN. Raises OSError.

    Calls of other architectures (i386, x32) fail altogether.
    """
    if platform.machine() != "x86_64":
        raise OSError(f"there is no filter for {platform.machine()}")
    instructions = [
        Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        Instruction(_EQUAL, 1, 0, X86_64),
        _fail(errno.EPERM),
        Instruction(_LOAD, 0, 0, _NUMBER),
        Instruction(_AT_LEAST, 0, 1, X32_BIT),
        _fail(errno.EPERM),
        *rules,
        Instruction(_RETURN, 0, 0, ALLOW),
    ]
    program = _Program(len(instructions), (Instruction * len(instructions))(*instructions))
    system.prctl(SECCOMP, FILTER_MODE, ctypes.byref(program))


def _fail(code: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, ERROR | code)


def _on_first_argument(number: int, check: list[Instruction]) -> list[Instruction]:
    """Run `check` over the first argument (its lower half) of the call; the call is allowed when it returns nothing."""
    body = [Instruction(_LOAD, 0, 0, _FIRST_ARGUMENT), *check, Instruction(_RETURN, 0, 0, ALLOW)]
    return [Instruction(_EQUAL, 0, len(body), number), *body]
