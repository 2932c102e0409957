"""A program of its own: checks what a customer handed in, within limits on memory and time.

    python -m workbench.intake.check_files PARENT < request.json

The request is a JSON object: `check` (`model`, `config` or `recording`), `files` (paths in the upload, and where their
contents lie), `most_bytes`, the most that a model may have, and `data`, the folder of which it reads those files alone.
It prints one JSON object: `facts`, or `refused`: a list with the file, the field and the reason of each offence; and
`missing`: what does not confine it, in sentences. It has no settings, no database and no secret.
"""

import json
import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernels.model_files import ModelRefused, inspect, inspect_config_file
from workbench.intake.services.chat_templates import check_templates
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.confinement.confine import confine
from workers.confinement.control_group import ControlGroup
from workers.host.stage_files import readable
from workers.loadtest.recording import InvalidRecording, facts
from workers.shared.lifeline import die_with_parent

MEMORY_BYTES = 2**30
CPU_SECONDS = 60


def main() -> None:
    """The parent's process id is the first argument: this process ends with it."""
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    missing = _confine(request)
    die_with_parent(int(sys.argv[1]))  # another user's id ends what the kernel was told before
    json.dump({"missing": missing} | answer(request), sys.stdout)


def _confine(request: Mapping[str, Any]) -> list[str]:
    """Leave this process the files of the request to read, no network, and nothing to write or start."""
    limits = ResourceLimits(cpu_seconds=CPU_SECONDS, file_bytes=0, processes=0)
    files = readable(os.environ, ["workbench"], [Path(request["data"])])
    return confine(limits, Bounds(readable=(*files, *request["files"].values())), ControlGroup({})).missing


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    files = {path: Path(at) for path, at in request["files"].items()}
    try:
        return {"facts": _facts(request["check"], files, request["most_bytes"])}
    except ModelRefused as error:
        return {"refused": error.reasons}
    except InvalidRecording as error:
        return {"refused": [{"file": next(iter(files)), "field": "", "reason": error.reason}]}
    except MemoryError:
        reason = f"checking them takes more than {MEMORY_BYTES:,} bytes of memory"
        return {"refused": [{"file": "", "field": "files", "reason": reason}]}


def _facts(check: str, files: Mapping[str, Path], most_bytes: int) -> Any:
    if check == "recording":
        return facts(next(iter(files.values()))).model_dump(mode="json")
    if check == "config":
        return inspect_config_file(next(iter(files.values()))).model_dump(mode="json")
    model_facts = inspect(files, quota=most_bytes)
    check_templates(files)
    return model_facts.model_dump(mode="json")


if __name__ == "__main__":
    main()
