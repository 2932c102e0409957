"""The stub server of `benchmarks/` in a process of its own."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks import stub_server


class Stub:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def log(self) -> dict[str, dict[str, Any]]:
        """What was served since the last call, by its prompt."""
        with urllib.request.urlopen(f"{self.url}/log", timeout=30) as answer:
            return {row["prompt"]: row for row in json.load(answer)}


@contextmanager
def running_stub(first_ms: float = 20, gap_ms: float = 4) -> Iterator[Stub]:
    command = [sys.executable, stub_server.__file__, "--first-ms", str(first_ms), "--gap-ms", str(gap_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Stub(int(process.stdout.readline()))
        finally:
            process.terminate()
