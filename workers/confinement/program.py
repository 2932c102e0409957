"""Runs a program that reads the system's files and its own alone, and writes to one folder.

Arguments: the folder, then the program with its arguments. Where the kernel has no Landlock the program runs without.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from workers.confinement import landlock, system
from workers.confinement.confine import ALL_PROCESSES, DEVICES, SYSTEM_READABLE

SETTINGS = ("/etc/fonts", "/etc/chromium", "/etc/chromium.d", "/var/cache/fontconfig")
"""What a program that draws text reads of the system besides."""


def main() -> NoReturn:
    """Become the program, without TCP, signals to others or the environment of other processes."""
    folder, *command = sys.argv[1:]
    program = shutil.which(command[0]) or command[0]
    own = str(Path(program).resolve().parent)
    writable = [folder] if os.geteuid() == 0 else [folder, ALL_PROCESSES]  # its sandbox maps users there
    system.prctl(system.NO_NEW_PRIVILEGES, 1)
    try:
        landlock.restrict([*SYSTEM_READABLE, *SETTINGS, own], writable, DEVICES)
    except OSError as refused:
        print(f"Landlock is not to be had: {refused}", file=sys.stderr, flush=True)
    os.execv(program, command)
