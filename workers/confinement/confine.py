"""Confines the process that calls it, step by step; a step that the kernel refuses is reported in a sentence."""

import contextlib
import fcntl
import glob
import os
import resource
import socket
import struct
from pathlib import Path

from workers.confinement import landlock, privileges, syscall_filter, system
from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.confinement.control_group import ControlGroup

SYSTEM_READABLE = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/opengl-driver"),
    *("/proc", "/sys", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/os-release", "/etc/OpenCL", "/etc/nvidia"),
)
SYSTEM_WRITABLE = ("/dev/shm", "/proc/self")
ALL_PROCESSES = "/proc"
"""The folder that a confined process may write to for CUDA, which writes below `/proc/self` when it is first used.

In a Landlock rule `/proc/self` means the process that made the rule. A stage starts other processes, such as the
compilers of TorchInductor, so the rule names the whole folder. The owners of the files limit who may write them. Root
owns the settings in `/proc/sys`, so a stage that runs as root gets this folder only where they are mounted read-only,
as in a container.
"""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/dxg", "/dev/nvidia*")


def confine(limits: ResourceLimits, bounds: Bounds, group: ControlGroup) -> Protection:
    """Confine this process; what it starts inherits it all."""
    protection = Protection()
    gpus_open = all(os.stat(path).st_mode & 0o006 == 0o006 for path in glob.glob("/dev/nvidia[0-9c]*"))  # to every user
    to_reach_files = privileges.to_reach_files() if gpus_open else None
    with contextlib.suppress(OSError):  # when memory runs out, the stage goes before its worker
        Path("/proc/self/oom_score_adj").write_text("500")
    _limit_resources(limits, group, protection)
    own_network = _leave_network(protection)
    confined = to_reach_files is not None or not bounds.required  # it will have a user of its own, or need not
    connects = bounds.loopback and own_network and confined and _raise_loopback(protection)
    system.prctl(system.NO_NEW_PRIVILEGES, 1)
    keeps_root = os.geteuid() == 0 and to_reach_files is None
    closed = keeps_root and not _settings_are_read_only()
    abi = _restrict_files(bounds, () if closed else (ALL_PROCESSES,), connects, protection)
    own_user = _drop_privileges(bounds.user, to_reach_files if abi else None, protection)
    if abi >= landlock.SIGNAL_ABI or own_user:
        protection.held.append("no signals to other processes")
    else:
        protection.missing.append("It can send signals to other processes of the worker's user.")
    if os.geteuid() == 0 and "pids" not in group.limited:
        protection.missing.append(
            "The number of its processes is not limited: it runs as root without a control group."
        )
    if connects and not own_user:
        protection.missing.append("It can connect to Unix sockets of the worker's user.")
    _filter_calls(own_network, connects, protection)
    return protection


def _limit_resources(limits: ResourceLimits, group: ControlGroup, protection: Protection) -> None:
    try:
        group.enter()
    except OSError:
        group.limited.clear()
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds, margin=5)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_NPROC, limits.processes)
    _limit(resource.RLIMIT_CORE, 0)
    protection.held.append("limits on time, processes, files and their size")
    if limits.memory_bytes is None:
        return
    where = "in all"
    if "memory" not in group.limited:
        where = "for each process"
        _limit(resource.RLIMIT_DATA, limits.memory_bytes + limits.mapped_bytes)
    protection.held.append(f"{limits.memory_bytes / 2**30:.3g} GiB of memory {where}")


def _limit(kind: int, value: int, margin: int = 0) -> None:
    """Set a soft limit, and a hard one `margin` above it, as far as the present hard limit allows."""
    hard = resource.getrlimit(kind)[1]
    soft, ceiling = (v if hard == resource.RLIM_INFINITY else min(v, hard) for v in (value, value + margin))
    resource.setrlimit(kind, (soft, ceiling))


def _leave_network(protection: Protection) -> bool:
    try:
        own_memory = leave()
    except OSError:
        protection.missing.append(
            "It shares /dev/shm and System V memory with the machine: no namespaces are to be had."
        )
        return False
    if not own_memory:
        protection.missing.append("It shares /dev/shm with the machine: nothing can be mounted.")
    protection.held.append("no network")
    return True


def _raise_loopback(protection: Protection) -> bool:
    try:
        raise_loopback()
    except OSError:
        return False
    protection.held[-1] = "no network but its own"
    return True


def _restrict_files(bounds: Bounds, also_writable: tuple[str, ...], connects: bool, protection: Protection) -> int:
    """Landlock's version, 0 where the kernel refuses it."""
    readable = [*SYSTEM_READABLE, *bounds.readable]
    devices = [path for pattern in DEVICES for path in glob.glob(pattern)]
    try:
        abi = landlock.restrict(readable, [*SYSTEM_WRITABLE, *also_writable, *bounds.writable], devices, connects)
    except OSError as refused:
        protection.missing.append(f"It can open every file of its user: Landlock is not to be had ({refused}).")
        return 0
    protection.held.append("the files of its run alone")
    return abi


def _drop_privileges(user: int, to_reach_files: int | None, protection: Protection) -> bool:
    """Give up every capability, and become `user` if that one still reaches its files; whether it has."""
    changed = False
    privileges.renounce(to_reach_files or 0)
    if to_reach_files is not None:
        with contextlib.suppress(OSError):
            privileges.become(user)
            changed = True
            protection.held.append("a user of its own")
    try:
        privileges.drop(keep=(to_reach_files or 0) if changed else 0)
    except OSError as refused:
        protection.missing.append(f"It keeps the worker's capabilities ({refused}).")
    else:
        protection.held.append("no privileges")
    return changed


def _filter_calls(own_network: bool, connects: bool, protection: Protection) -> None:
    try:
        syscall_filter.install(syscall_filter.stage_filter(connects))
    except OSError as refused:
        protection.missing.append(f"Its system calls are not filtered ({refused}).")
        if not own_network:
            protection.missing.append("It can reach the network: the kernel allows neither a namespace nor a filter.")
    else:
        protection.held.append("filtered system calls" if own_network else "no network (by the filter of system calls)")


def _settings_are_read_only() -> bool:
    """Whether nobody can change the kernel's settings through `/proc`."""
    paths = filter(os.path.exists, ("/proc/sys", "/proc/sysrq-trigger"))
    return all(os.statvfs(path).f_flag & os.ST_RDONLY for path in paths)


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
