"""Known model configurations: no upload needed, weights come from a seed. Imports without torch."""

import json
from functools import cache
from pathlib import Path
from typing import Any

_DIRECTORY = Path(__file__).parent / "catalogue"

SUMMARIES: dict[str, str] = {
    "llama-3.2-1b": "Llama 3.2, 1.24 B parameters: the voice-agent case",
    "qwen2.5-1.5b": "Qwen 2.5, 1.54 B parameters: the voice-agent case, with biases on q, k and v",
    "llama-3.1-8b": "Llama 3.1, 8.03 B parameters",
}
"""One line per entry, in the order they are shown; the configuration is catalogue/<name>.json."""


def names() -> list[str]:
    """The entries, in the order they are shown."""
    return list(SUMMARIES)


@cache
def _text(name: str) -> str:
    return (_DIRECTORY / f"{name}.json").read_text()


def entry(name: str) -> tuple[dict[str, Any], str]:
    """Configuration (as in config.json) and one-line summary. Raises KeyError with the names there are."""
    if name not in SUMMARIES:
        raise KeyError(f"no catalogue model {name!r}; there are {', '.join(SUMMARIES)}")
    return json.loads(_text(name)), SUMMARIES[name]
