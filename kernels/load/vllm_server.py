"""vLLM's OpenAI server, which is measured beside this library's: how it is started, and with which settings."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernels.model.written_model import TOKENIZER_FOLDER

MEMORY_SHARE = 0.85
"""The share of the GPU's memory that vLLM takes where it has the GPU to itself."""
PLUGIN, PLAN = "kernel-workbench-vllm", "KERNELS_PLAN"
"""The distribution of `clients/vllm`, and the variable that names its plan, with which the lines of its log begin."""


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
    """What servers are started for. vLLM alone is told `memory`, its share, and `shared_prefix`."""

    directory: Path
    name: str
    dtype: str
    port: int
    max_model_len: int
    max_num_seqs: int
    memory: float = MEMORY_SHARE
    shared_prefix: bool = False


def vllm(
    requested: ServerSettings, python: str, environment: Mapping[str, str], options: Sequence[str] = ()
) -> ServerCommand:
    """vLLM's server, without prefix cache where prompts share nothing. Raises ValueError without its Python."""
    if shutil.which(python) is None:
        raise ValueError(f"{python} is no Python")
    version = _installed(python, environment, "vllm")
    if not version:
        raise ValueError(f"{python} has no vLLM")
    long = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[requested.dtype]
    given = {
        "--dtype": long,
        "--max-model-len": str(requested.max_model_len),
        "--max-num-seqs": str(requested.max_num_seqs),
        "--gpu-memory-utilization": str(requested.memory),
        "--generation-config": "vllm",
        "--seed": "0",
    }
    cached = "--enable-prefix-caching" if requested.shared_prefix else "--no-enable-prefix-caching"
    flags = [cached, "--disable-log-stats", "--disable-uvicorn-access-log"]
    settings = [*(word for pair in given.items() for word in pair), *flags, *options]
    address = ["--host", "127.0.0.1", "--port", str(requested.port)]
    # By `vllm serve`: started as the module of the API, vLLM reads --api-server-count and ignores it.
    start = [python, "-m", "vllm.entrypoints.cli.main", "serve", str(requested.directory)]
    if (tokenizer := requested.directory / TOKENIZER_FOLDER).is_dir():
        start += ["--tokenizer", str(tokenizer)]
    rounded = {"weights": "fp8"} if "--quantization=fp8" in options else {}
    return ServerCommand(
        "vllm",
        True,
        [*start, "--served-model-name", requested.name, *address, *settings],
        environment,
        {"version": version, "options": " ".join(settings)} | rounded,
    )


def with_plan(server: ServerCommand, plan: Path, drafts: int = 0) -> ServerCommand:
    """vLLM's server with the plan by the plug-in of `clients/vllm`, `drafts` a pass. Raises ValueError without it."""
    python, environment, extra_options = server.command[0], {**server.environment, PLAN: str(plan)}, list[str]()
    if not _installed(python, environment, PLUGIN):
        raise ValueError(f"{python} has no {PLUGIN}")
    if drafts:
        speculative = {"method": "ngram_gpu", "num_speculative_tokens": drafts}
        extra_options = [f"--speculative-config={json.dumps(speculative)}"]
        environment |= {"KERNELS_SEVERAL_TOKENS": "1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    return replace(
        server,
        variant="vllm_plugin",
        peer=False,
        command=[*server.command, *extra_options],
        environment=environment,
        settings=server.settings | {"options": " ".join([server.settings["options"], *extra_options])},
    )


def plan_kernels_in_log(log: str) -> list[str]:
    """What vLLM's log says of the plan's kernels, `NAME in steps of … sequences`; [] where it runs without them."""
    lines = [line.partition(f"{PLAN}: ")[2].strip() for line in log.splitlines()]
    return [line for line in lines if line]


def plan_refusal(log: str) -> str:
    """Why vLLM runs without the plan, by its log."""
    why = re.search(f"{PLAN} is not used(?:, and vLLM goes on without it)?: (.*)", log)
    return why[1].strip().rstrip(".") if why else f"{PLUGIN} says nothing in its log"


def _installed(python: str, environment: Mapping[str, str], name: str) -> str:
    """The version of a distribution in that Python's environment; "" where it is not there."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    done = subprocess.run([python, "-c", code], env=dict(environment), capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout.strip().splitlines()[-1]
