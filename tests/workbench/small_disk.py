"""Runs a scenario on a really small disk: a tmpfs of 64 MiB in a mount namespace of its own.

`unshare` makes the namespace, with a user namespace around it so that no root is needed; nothing outside sees the
mount. The machine must allow user namespaces; where it does not, the test fails and says so.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.programs import ROOT

MOUNT = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'


def run_on_small_disk(module: str, folder: Path, mebibytes: int = 64, timeout: float = 600) -> dict[str, Any]:
    """What `python -m module folder` prints last, as JSON, with `folder` on a file system of that size."""
    folder.mkdir(parents=True, exist_ok=True)
    inside = ["sh", "-c", MOUNT, "sh", f"{mebibytes}m", str(folder), sys.executable, "-m", module, str(folder)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", *inside],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    text: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return text


def fill(folder: Path) -> Path:
    """Fills the file system of `folder` to its last byte; returns the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            try:
                while True:
                    file.write(b"\xa5" * size)
            except OSError:
                continue
    return filler
