"""The environment of vLLM on a GPU host, which the setting WORKER_VLLM names by its folder."""

from collections.abc import Mapping
from pathlib import Path

SETTING = "WORKER_VLLM"
TOLD = "KERNELS_VLLM_PYTHON"
"""The variable by which `kernels.runners.vllm_runner` finds vLLM's Python."""


def variables(outer: Mapping[str, str]) -> dict[str, str]:
    """What a stage is told of vLLM; nothing where the worker's environment `outer` names none."""
    python = _python(outer)
    return {} if python is None else {TOLD: str(python)}


def files(outer: Mapping[str, str]) -> list[str]:
    """What a stage reads for vLLM: its folder, and where the Python that it was made with is installed."""
    python = _python(outer)
    if python is None:
        return []
    base = python.resolve().parents[1]
    return [str(python.parents[1]), *([str(base)] if base != Path("/") else [])]


def _python(outer: Mapping[str, str]) -> Path | None:
    folder = outer.get(SETTING, "")
    return Path(folder).absolute() / "bin" / "python" if folder else None
