"""What a measurement of the whole site says of the machine that it ran on."""

import os
import platform
import re
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = match[1] if match else platform.machine()
    return {"cpu": name, "cores": os.cpu_count(), "python": platform.python_version()}


def load_average() -> list[float]:
    return [round(load, 2) for load in os.getloadavg()]
