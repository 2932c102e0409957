"""vLLM's OpenAI server, which is measured beside this library's: how it is started, and with which settings."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.model.written_model import TOKENIZER_FOLDER

MEMORY_SHARE = 0.85
"""The share of the GPU's memory that vLLM takes where it has the GPU to itself."""


@dataclass(frozen=True)
class ServerCommand:
    """A server to start, whose `/health` answers 200 once it serves. `settings` are written into its rows."""

    variant: str
    peer: bool
    command: Sequence[str]
    environment: Mapping[str, str]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerSettings:
    """What every server is started for: a model's directory, its name to clients, and the size of the traffic.

    vLLM alone is told `memory`, its share of the GPU's, and whether prompts begin alike, `shared_prefix`.
    """

    directory: Path
    name: str
    dtype: str
    port: int
    max_model_len: int
    max_num_seqs: int
    memory: float = MEMORY_SHARE
    shared_prefix: bool = False


def vllm(
    wanted: ServerSettings, python: str, environment: Mapping[str, str], options: Sequence[str] = ()
) -> ServerCommand:
    """vLLM's OpenAI server, by the Python of its environment. Raises ValueError when that Python is not there.

    Its prefix cache is off where prompts share nothing; CUDA graphs and asynchronous scheduling are its own defaults.
    """
    if shutil.which(python) is None:
        raise ValueError(f"{python} is no Python")
    completed = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('vllm'))"],
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if completed.returncode:
        raise ValueError(f"{python} has no vLLM")
    long = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[wanted.dtype]
    given = {
        "--dtype": long,
        "--max-model-len": str(wanted.max_model_len),
        "--max-num-seqs": str(wanted.max_num_seqs),
        "--gpu-memory-utilization": str(wanted.memory),
        "--generation-config": "vllm",
        "--seed": "0",
    }
    cached = "--enable-prefix-caching" if wanted.shared_prefix else "--no-enable-prefix-caching"
    flags = [cached, "--disable-log-stats", "--disable-uvicorn-access-log"]
    settings = [*(word for pair in given.items() for word in pair), *flags, *options]
    place = ["--host", "127.0.0.1", "--port", str(wanted.port)]
    # By `vllm serve`: started as the module of the API, vLLM reads --api-server-count and ignores it.
    start = [python, "-m", "vllm.entrypoints.cli.main", "serve", str(wanted.directory)]
    if (tokenizer := wanted.directory / TOKENIZER_FOLDER).is_dir():
        start += ["--tokenizer", str(tokenizer)]
    return ServerCommand(
        "vllm",
        True,
        [*start, "--served-model-name", wanted.name, *place, *settings],
        environment,
        {"version": completed.stdout.strip().splitlines()[-1], "options": " ".join(settings)},
    )
