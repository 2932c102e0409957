"""Giving up a process's privileges: its user, its capabilities, and the way to new ones."""

import contextlib
import ctypes
import os
from pathlib import Path

from workers.confinement import system

DROP_BOUNDING, SECURE_BITS, AMBIENT = 24, 28, 47
"""Operations of prctl(2): PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_CAP_AMBIENT."""
ROOT_GETS_NOTHING = 0b1111
"""Secure bits: execve gives root no capabilities, a change of user neither; both locked."""
CAPSET = 126
"""The number of the system call capset(2)."""
VERSION_3 = 0x20080522
"""The version of its header: sets of 64 capabilities."""
CHOWN, READ_ANY_FILE, KILL, SET_GROUP, SET_USER = 0, 2, 5, 6, 7
"""Capabilities by their numbers; the files are those of CAP_DAC_READ_SEARCH."""


def capabilities() -> int:
    """The bits of the capabilities in force."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def to_reach_files() -> int | None:
    """The capability with which another user reads files in closed folders, as bits; None without it.

    None as well where this process could not become another user, hand it files, and end it. Which files are read is
    then Landlock's to say. CAP_DAC_OVERRIDE would do as well, but it writes to other users' files in /dev/shm.
    """
    needed = sum(1 << bit for bit in (CHOWN, READ_ANY_FILE, KILL, SET_GROUP, SET_USER))
    return 1 << READ_ANY_FILE if os.geteuid() == 0 and capabilities() & needed == needed else None


def renounce(keep: int = 0) -> None:
    """Bar this process from capabilities but those of the bits `keep`: execve and a change of user give it none."""
    for bit in (bit for bit in range(64) if not keep & 1 << bit):
        with contextlib.suppress(OSError):  # there are fewer, or it takes a capability that is not there
            system.prctl(DROP_BOUNDING, bit)
    with contextlib.suppress(OSError):
        system.prctl(SECURE_BITS, ROOT_GETS_NOTHING)


def become(user: int) -> None:
    """Become `user`, in the group of the same number alone. Raises OSError, as where the number is not mapped."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def drop(keep: int = 0) -> None:
    """Keep no capability but those of the bits `keep`, which programs started later have too. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(keep, keep, keep, 0, 0, 0)
    system.call(CAPSET, ctypes.byref(header), ctypes.byref(sets))
    for bit in range(32):
        if keep & 1 << bit:
            system.prctl(AMBIENT, 2, bit)
