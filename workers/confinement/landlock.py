"""Landlock: the files a process may open, and no TCP, abstract Unix sockets or signals beyond its own processes.

The kernel's interface is described in its userspace API documentation, landlock.rst.
"""

import ctypes
import os
import stat
from collections.abc import Iterable

from workers.confinement import system

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
OLDEST_ABI = 2
"""The first version that lets a process rename a file from one directory to another."""
SIGNAL_ABI = 6
"""The first version that refuses signals to processes outside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
_MAKE_DEVICES = 1 << 6 | 1 << 11
_FILE_RIGHTS_BY_ABI = {2: 14, 3: 15, 4: 15}
_BIND_TCP_CONNECT_TCP = 3
_ABSTRACT_SOCKETS_SIGNALS = 3


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The kernel's Landlock version. Raises OSError where there is none or it is too old to be used."""
    version = system.call(CREATE_RULESET, None, 0, 1)
    if version < OLDEST_ABI:
        raise OSError(f"version {version} is older than {OLDEST_ABI}")
    return version


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], tcp: bool = False) -> int:
    """Leave this process and its children these files alone, and return Landlock's version. Raises OSError.

    Needs no_new_privs. `devices` may be read, written and controlled. `tcp`: it may bind and connect TCP sockets.
    """
    abi = version()
    all_rights = (1 << _FILE_RIGHTS_BY_ABI.get(abi, 16)) - 1
    network = _BIND_TCP_CONNECT_TCP if abi >= 4 and not tcp else 0
    scoped = _ABSTRACT_SOCKETS_SIGNALS if abi >= SIGNAL_ABI else 0
    size = 24 if abi >= SIGNAL_ABI else 16 if abi >= 4 else 8
    rules = system.call(CREATE_RULESET, ctypes.byref(_Ruleset(all_rights, network, scoped)), size, 0)
    try:
        for path in readable:
            _allow(rules, path, READ & all_rights)
        for path in writable:
            _allow(rules, path, all_rights & ~(IOCTL_DEVICE | _MAKE_DEVICES))
        for path in devices:
            _allow(rules, path, (WRITE_FILE | READ_FILE | READ_DIR | IOCTL_DEVICE) & all_rights)
        system.call(RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)
    return abi


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= OF_FILES
        system.call(ADD_RULE, rules, 1, ctypes.byref(_PathBeneath(rights, opened)), 0)
    finally:
        os.close(opened)
