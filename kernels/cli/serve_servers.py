"""The servers that `bench serve` holds beside each other: how each is started, and with which settings."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_SECONDS = 400.0
"""A server compiles and captures its graphs before it is ready."""
MEMORY_SHARE = 0.85
"""Of the GPU's memory, for vLLM."""


@dataclass(frozen=True)
class ServerCommand:
    """A server to start; `ready` is the path that answers 200 once it serves, `settings` are written into its rows."""

    variant: str
    peer: bool
    command: Sequence[str]
    ready: str
    environment: Mapping[str, str]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What every server is started for: a model's directory, its name to clients, and the size of the traffic."""

    directory: Path
    name: str
    dtype: str
    port: int
    context: int
    running: int


def ours(wanted: Wanted, device: str, options: Sequence[str] = ()) -> ServerCommand:
    """`python -m kernels serve`."""
    size = ["--context", str(wanted.context), "--running", str(wanted.running)]
    place = ["--device", device, "--dtype", wanted.dtype, "--host", "127.0.0.1", "--port", str(wanted.port)]
    command = [sys.executable, "-m", "kernels", "serve", "--model", str(wanted.directory), "--name", wanted.name]
    settings = {"context": wanted.context, "running": wanted.running, "options": " ".join(options)}
    return ServerCommand("kernels", False, [*command, *size, *place, *options], "/ready", dict(os.environ), settings)


def vllm(wanted: Wanted, python: str, environment: Mapping[str, str], options: Sequence[str] = ()) -> ServerCommand:
    """vLLM's OpenAI server, by the Python of its environment. Raises ValueError when that Python is not there.

    Prompts share nothing, so its prefix cache is off; CUDA graphs and asynchronous scheduling are its own defaults.
    """
    if shutil.which(python) is None:
        raise ValueError(f"--vllm: {python} is no Python")
    asked = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('vllm'))"],
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if asked.returncode:
        raise ValueError(f"--vllm: {python} has no vLLM")
    long = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[wanted.dtype]
    given = {
        "--dtype": long,
        "--max-model-len": str(wanted.context),
        "--max-num-seqs": str(wanted.running),
        "--gpu-memory-utilization": str(MEMORY_SHARE),
        "--generation-config": "vllm",
        "--seed": "0",
    }
    flags = ["--no-enable-prefix-caching", "--disable-log-stats", "--disable-uvicorn-access-log"]
    settings = [*(word for pair in given.items() for word in pair), *flags, *options]
    place = ["--host", "127.0.0.1", "--port", str(wanted.port)]
    start = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(wanted.directory)]
    return ServerCommand(
        "vllm",
        True,
        [*start, "--served-model-name", wanted.name, *place, *settings],
        "/health",
        environment,
        {"version": asked.stdout.strip().splitlines()[-1], "options": " ".join(settings)},
    )
