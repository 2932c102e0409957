"""Namespaces of a process's own: an empty network, System V memory and mounts, and a /dev/shm of its own."""

import fcntl
import os
import socket
import struct
from pathlib import Path

from workers.confinement import system

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000
RECURSIVE_PRIVATE = 0x4000 | 0x40000
NO_SETUID_NO_DEVICES = 2 | 4
SET_INTERFACE_FLAGS, UP = 0x8914, 1


def leave() -> bool:
    """Enter them, as root or in a user namespace. Returns whether /dev/shm is its own. Raises OSError without them."""
    flags = NEW_NETWORK | NEW_IPC | NEW_MOUNTS
    try:
        system.unshare(flags)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        system.unshare(NEW_USER | flags)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    try:
        system.mount("", "/", "", RECURSIVE_PRIVATE, "")
        system.mount("tmpfs", "/dev/shm", "tmpfs", NO_SETUID_NO_DEVICES, "mode=1777")
    except OSError:
        return False
    return True


def raise_loopback() -> None:
    """Let processes of this network namespace connect to each other. Hides /run, where the system's services listen.

    Raises OSError where the kernel refuses either; then nothing of this network can be connected to.
    """
    system.mount("", "/", "", RECURSIVE_PRIVATE, "")
    system.mount("tmpfs", "/run", "tmpfs", NO_SETUID_NO_DEVICES, "mode=755")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, struct.pack("16sH14x", b"lo", UP))
