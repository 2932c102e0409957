"""What a measurement of the whole site says of the machine that it ran on, and how it is written."""

import json
import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernels.measure.environment import commit


def machine() -> dict[str, Any]:
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = match[1] if match else platform.machine()
    return {"cpu": name, "cores": os.cpu_count(), "python": platform.python_version()}


def provenance(command: str) -> dict[str, Any]:
    """Where the figures come from: the command, the commit, the time and the machine."""
    return {
        "command": command,
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }


def write(document: dict[str, Any], path: Path | None) -> None:
    """Print the document, and write it to the file where there is one."""
    text = json.dumps(document, indent=1) + "\n"
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(text)


def load_average() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]
