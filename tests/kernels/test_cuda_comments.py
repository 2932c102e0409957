"""The comments of CUDA sources name only what exists."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "kernels").rglob("*.cu*"))
PYTHON = {path: path.read_text() for path in (ROOT / "kernels").rglob("*.py")}
FILES = [f"/{path.relative_to(ROOT)}" for room in ("kernels", "docs") for path in (ROOT / room).rglob("*.*")]
CALLERS = {
    "blackwell": [ROOT / "kernels" / room for room in ("blackwell", "attention", "gemm")],
    "megakernel/cuda": [ROOT / "kernels" / "megakernel"],
}
"""Where the Python modules of sources lie that are not only beside them."""
COMMENT = re.compile(r"//.*")
FILE = re.compile(r"[\w./-]*\w\.(?:py|cuh|cu|md)\b")
DOTTED = re.compile(r"\b(?!kernels\.)(\w+)\.(\w+)\b(?!\.\w|[(/])|\bkernels((?:\.\w+)+)")


def comments(source: Path) -> str:
    return "\n".join(COMMENT.findall(source.read_text()))


def identifiers(texts: list[str]) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))


@cache
def code_of(room: Path) -> set[str]:
    """Identifiers of a folder's sources, of the Python modules of its room or of one that calls it, and of the tile
    layer.
    """
    sources = (*room.glob("*.cu*"), *(ROOT / "kernels" / "tiles").glob("*.cu*"))
    callers = CALLERS.get(room.relative_to(ROOT / "kernels").as_posix(), (room,))
    python = [text for path, text in PYTHON.items() if any(path.is_relative_to(caller) for caller in callers)]
    return identifiers([COMMENT.sub("", path.read_text()) for path in sources] + python)


@cache
def names_of(module: Path) -> set[str]:
    return identifiers([PYTHON[module]]) if module in PYTHON else set()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_names_and_files_exist(source: Path) -> None:
    """Names in backticks; files; `module.name` and `kernels.room.module.name`, also in messages of static_assert."""
    text = comments(source)
    named = identifiers([re.sub(r"[\w.]+\.\w+", "", quoted) for quoted in re.findall(r"`([^`]*)`", text)])
    assert not named - code_of(source.parent) - {"__grid_constant__"}
    assert not [name for name in FILE.findall(text) if not any(file.endswith(f"/{name}") for file in FILES)]
    messages = re.findall(r"static_assert\(.*?\"(.*?)\"\)", source.read_text(), re.S)
    for module, name, path in DOTTED.findall(FILE.sub("", "\n".join((text, *messages)))):
        if path:
            *rooms, last = path.strip(".").split(".")
            whole = ROOT.joinpath("kernels", *rooms, f"{last}.py")
            assert whole in PYTHON or last in names_of(ROOT.joinpath("kernels", *rooms).with_suffix(".py")), path
        else:
            modules = [each for each in PYTHON if each.stem == module]
            assert not modules or any(name in names_of(each) for each in modules), f"{module}.{name}"
