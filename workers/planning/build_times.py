"""Remembers how long whole-model variants took to build on this machine."""

import json
from typing import Any

from kernels.tune.tuning_cache import cache_directory
from workers.documents.stages import StageInput

EXPECTED_SHARE = 0.5
"""`build_seconds` of a variant is its worst case. Without an earlier build this share of it is expected."""


class BuildTimes:
    """How long whole-model variants took to build here before: with warm compiler caches that is much shorter."""

    def __init__(self, document: StageInput) -> None:
        traffic = document.workload.traffic
        self._key = f"{document.model.digest[:16]}-{document.gpu_class}-{traffic.batch}-{traffic.prompt_tokens}"
        self._path = cache_directory() / "builds.json"

    def expect(self, variant: str, worst: float) -> float:
        """Seconds that building probably takes; after a first build, however slow, the compiler caches are warm."""
        seconds = self._read().get(f"{self._key}-{variant}")
        expected = EXPECTED_SHARE * worst
        return min(float(seconds), expected) if isinstance(seconds, int | float) else expected

    def note(self, variant: str, seconds: float) -> None:
        """Records the duration of a build. A write error is printed and ignored."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._read() | {f"{self._key}-{variant}": round(seconds, 1)}))
        except OSError as error:
            print(f"{self._path} could not be written: {error}")

    def _read(self) -> dict[str, Any]:
        try:
            seconds = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return seconds if isinstance(seconds, dict) else {}
