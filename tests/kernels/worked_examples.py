"""Takes the files of a page of docs out of it, and lets them be imported as if they lay in the tree."""

import importlib
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r"^```(?:python|cuda)\n(?:#|//) (kernels/\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def written(page: str, folder: Path) -> list[Path]:
    """The files of `docs/<page>.md`, written below `folder` at the paths that their first lines name."""
    paths = []
    for name, text in FILE.findall((DOCS / f"{page}.md").read_text("utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        paths.append(path)
    return paths


def installed(page: str, folder: Path) -> list[Path]:
    """The files of a page, where imports of their packages find them."""
    paths = written(page, folder)
    for package in {path.parent.relative_to(folder).as_posix().replace("/", ".") for path in paths}:
        places = importlib.import_module(package).__path__
        places.append(str(folder / package.replace(".", "/")))
    return paths
