"""Stands in for the worker: becomes the given user under the given profile, starts the attacks as a stage is started.

Runs with the standard library and `workers/` alone: `worker.py '{"user": …, "profile": …, …}'`.
"""

import errno
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.workers import one_command
from workers.confinement import confine, landlock, privileges, syscall_filter, system
from workers.confinement.bounds import Bounds, Protection, ResourceLimits
from workers.host import child
from workers.host.stage_files import python_files
from workers.host.template_process import Template

DOCKER_CAPABILITIES = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31))
"""What Docker leaves root by default, from CAP_CHOWN to CAP_SETFCAP."""
MOUNT, READ_ONLY, REMOUNT, BIND = 21, 1, 32, 4096
DOCKER_ALLOWS = {"ptrace", "process_vm_readv", "process_vm_writev"}


def _like_docker() -> None:
    """A filter with the refusals of Docker's default profile that concern a sandbox, and Docker's capabilities."""
    _mount_settings_read_only()
    refused = [number for name, number in syscall_filter.REFUSED.items() if name not in DOCKER_ALLOWS]
    if os.geteuid():
        system.prctl(system.NO_NEW_PRIVILEGES, 1)
    syscall_filter.install(
        [
            *syscall_filter.refuse(refused),
            *syscall_filter.refuse([syscall_filter.CLONE3], errno.ENOSYS),
            *syscall_filter.no_namespaces(),
        ]
    )
    if os.geteuid() == 0:
        privileges.renounce(DOCKER_CAPABILITIES)
        privileges.drop(DOCKER_CAPABILITIES)


def _mount_settings_read_only() -> None:
    """As the engine mounts them; a container of this test's own has them so already."""
    if privileges.capabilities() & 1 << MOUNT:
        system.unshare(confine.NEW_MOUNTS)
        system.mount("", "/", "", confine.RECURSIVE_PRIVATE, "")
        for path in filter(os.path.exists, ("/proc/sys", "/proc/sysrq-trigger")):
            system.mount(path, path, "", BIND, "")
            system.mount("", path, "", BIND | REMOUNT | READ_ONLY, "")


def _without_landlock() -> None:
    if os.geteuid():
        system.prctl(system.NO_NEW_PRIVILEGES, 1)
    syscall_filter.install(syscall_filter.refuse([landlock.CREATE_RULESET], errno.ENOSYS))


PROFILES = {"none": lambda: None, "docker": _like_docker, "no-landlock": _without_landlock}


def _main(wanted: dict[str, Any]) -> None:
    PROFILES[wanted["profile"]]()
    if wanted["user"] != os.geteuid():
        privileges.become(wanted["user"])
        privileges.drop()
    lines: list[str] = []
    protections: list[Protection] = []
    scratch, targets = Path(wanted["scratch"]), wanted["targets"] | {"worker": os.getpid()}
    answer: dict[str, Any] = {}
    try:
        answer["code"] = _run(wanted, targets, lines.append, protections.append)
    except child.ConfinementRefused as refused:
        answer["unconfined"] = str(refused)
    answer |= {"lines": lines, "log": (scratch / "log").read_text()}
    print(json.dumps(answer | {"protection": asdict(protections[0]) if protections else {}}))


def _run(
    wanted: dict[str, Any],
    targets: dict[str, Any],
    on_line: Callable[[str], None],
    on_start: Callable[[Protection], None],
) -> int:
    scratch = Path(wanted["scratch"])
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch), "TMPDIR": str(scratch / "tmp")}
    env["PYTHONPATH"] = targets["code"]
    ended = one_command.run(
        child.ChildCommand("attacks", [json.dumps(targets)], env, cwd=scratch, log_file=scratch / "log"),
        ResourceLimits(processes=targets["processes"], memory_bytes=wanted["memory"]),
        Bounds(
            readable=(*python_files(), targets["code"], targets["model"]),
            writable=(str(scratch), targets["cache"]), required=wanted.get("required", False),
            loopback=wanted.get("loopback", False),
        ),
        on_line, on_start, template=_template(targets["code"]) if wanted["forked"] else None,
    )  # fmt: skip
    return ended.code


def _template(code: str) -> Template:
    made = Template(["email.mime.text"], {"PATH": os.environ["PATH"], "PYTHONPATH": code})
    while not made.ready:
        time.sleep(0.01)
    return made


_main(json.loads(sys.argv[1]))
