"""What an operator wants served, and the configuration of the model that it names. Imports without torch."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.model_files import ModelRefused, catalogue
from kernels.model_files.sentence_transformers import SentenceModules, in_folder, sentence_modules, with_modules
from kernels.plan import KvCacheDtype

WEIGHTS = ("int8", "int4", "mxfp4", "fp8")
"""The lower precisions in which an operator may have weights held; mxfp4: experts alone, fp8: a checkpoint's own."""


@dataclass(frozen=True)
class Spec:
    """What to serve: a model's directory or a catalogue entry, perhaps a plan's file; sizes as `RequestedSize` has
    them. `device` None takes the GPU if there is one.
    """

    model: str
    plan: str | None = None
    device: str | None = None
    dtype: str | None = None
    seed: int = 0
    max_model_len: int | None = None
    max_num_seqs: int = 64
    kv_bytes: int | None = None
    kv_cache_dtype: KvCacheDtype | None = None
    """The precision of KV pages; None: as the plan has it, else that of the activations."""
    pause_ms: float | None = None
    weights: str = ""
    """One of WEIGHTS; "": as the plan has it, else as experts were stored, else the model's own."""
    exclude: tuple[str, ...] = ()
    """What the server leaves out, of `kernels.server.execution.served_plans.NAMES`."""
    tensor_parallel_size: int | None = None
    """The GPUs that run the model together; None: the plan's, else one."""
    capture_all: bool = False
    """Whether every pass is captured before the server is ready, as measurements need it, or some when it is idle."""
    web_processes: int | None = None
    """How many processes speak HTTP; None: as `kernels.server.processes.web_servers.processes_for` has it."""


def catalogue_config(model: str) -> dict[str, Any] | None:
    """The configuration of a catalogue entry, None for a directory. Raises ValueError where it is neither."""
    if Path(model).is_dir():
        return None
    try:
        return catalogue.entry(model)[0]
    except KeyError as error:
        raise ValueError(f"--model: {model} is no directory, and {error.args[0]}") from error


def configuration(spec: Spec) -> tuple[Path | None, dict[str, Any]]:
    """The model's directory, None for a catalogue entry, and its configuration. Raises ValueError with one sentence."""
    config = catalogue_config(spec.model)
    if config is not None:
        return None, config
    directory = Path(spec.model)
    return directory, with_modules(json_object(directory / "config.json"), modules_of(directory))


def modules_of(directory: Path | None) -> SentenceModules | None:
    """What sentence-transformers' files in a model's directory say. Raises ValueError with one sentence."""
    try:
        return sentence_modules(in_folder(directory)) if directory else None
    except ModelRefused as error:
        raise ValueError(f"{directory}: {error}") from error


def json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a model. Raises ValueError with one sentence."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: it cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path}: it holds no JSON object")
    return document
