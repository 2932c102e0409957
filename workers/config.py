"""The settings of a GPU worker, read from its environment."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class WorkerConfig:
    """Where the worker API is, where the worker keeps things, and how often it speaks.

    `token` is WORKER_TOKEN, or on one machine the one that the web process keeps in its data directory `data`.
    `require_sandbox`: a stage that cannot be confined as docs/security.md says is not run. `stage_memory_bytes`: what
    a stage may take; by default nine tenths of the machine's memory.
    """

    url: str
    token: str
    cache: Path
    cache_bytes: int
    heartbeat_seconds: float
    stage_package: str
    require_sandbox: bool
    stage_memory_bytes: int
    data: Path

    @property
    def scratch(self) -> Path:
        return self.data / "stages"

    @classmethod
    def from_environment(cls) -> Self:
        """Read the environment now; the token's file may appear after the worker has started."""
        data = Path(os.environ.get("WORKBENCH_DATA") or "var").resolve()
        token_file, gib = data / "worker_token", os.environ.get("WORKER_STAGE_MEMORY_GIB")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 10 * 9
        return cls(
            url=os.environ.get("WORKER_API_URL", "http://127.0.0.1:8001").rstrip("/"),
            token=os.environ.get("WORKER_TOKEN") or (token_file.read_text().strip() if token_file.exists() else ""),
            cache=Path(os.environ.get("WORKER_CACHE", data / "worker")).resolve(),
            cache_bytes=int(float(os.environ.get("WORKER_CACHE_GIB", 64)) * 2**30),
            heartbeat_seconds=float(os.environ.get("HEARTBEAT_SECONDS", 10)),
            stage_package=os.environ.get("WORKBENCH_STAGE_PACKAGE", "workers.stages"),
            require_sandbox=os.environ.get("WORKER_REQUIRE_SANDBOX", "") in ("1", "true", "yes"),
            stage_memory_bytes=int(float(gib) * 2**30) if gib else memory,
            data=data,
        )
