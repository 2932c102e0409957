"""A program of its own: checks what a customer handed in, within limits on memory and time.

    python -m workbench.intake.check_files PARENT < request.json

The request is a JSON object: `check` (`model`, `config` or `recording`), `files` (paths in the upload, and where their
contents lie) and `most_bytes`, the most that a model may have. It prints one JSON object: `facts`, or `refused`: a
list with the file, the field and the reason of each offence. It has no settings, no database and no secret.
"""

import json
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernels.model_files import ModelRefused, inspect, inspect_config_file
from workbench.intake.services.chat_templates import check_templates
from workers.loadtest.recording import InvalidRecording, facts
from workers.shared.lifeline import die_with_parent

MEMORY_BYTES = 2**30
CPU_SECONDS = 60


def main() -> None:
    """The parent's process id is the first argument: this process ends with it."""
    die_with_parent(int(sys.argv[1]))
    with suppress(OSError):  # when the machine's memory runs out, this process goes first
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    json.dump(answer(json.load(sys.stdin)), sys.stdout)


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
        return inspect_config_file(*files.values()).model_dump(mode="json")
    model_facts = inspect(files, quota=most_bytes)
    check_templates(files)
    return model_facts.model_dump(mode="json")


if __name__ == "__main__":
    main()
