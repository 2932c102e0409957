"""Whether the libraries that stages import are compiled to bytecode, which a confined stage cannot write itself."""

import logging
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

log = logging.getLogger(__name__)

IMPORTED = ("torch", "transformers", "sympy")
"""The libraries with most of the modules that a stage imports."""


def folders_without(packages: Iterable[str] = IMPORTED) -> list[str]:
    """The folders of the installed packages whose bytecode this Python does not find. Nothing is imported."""
    specs = [spec for spec in map(find_spec, packages) if spec and spec.origin and spec.cached]
    return [str(Path(str(spec.origin)).parent) for spec in specs if not Path(str(spec.cached)).exists()]


def warn(packages: Iterable[str] = IMPORTED) -> None:
    """Say in the log which folders every stage compiles anew, and the command that does it once."""
    if folders := folders_without(packages):
        command = f"{sys.executable} -m compileall -q -j 0 {' '.join(folders)}"
        log.warning("no bytecode of these libraries, so stages start seconds slower; compile it once: %s", command)
