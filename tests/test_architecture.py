"""The rules of the house that a linter does not check."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 300
TORCH_FREE = [
    "workers.gpu",
    "workers.documents.stages",
    "workbench.celery",
    "workbench.urls",
    "workbench.wsgi",
    "workbench.cli",
    "workbench.embedded",
    "kernels.ops",
    "kernels.plan",
    "kernels.hardware",
    "kernels.registry",
    "kernels.model_files",
    "kernels.model_files.catalogue",
    "kernels.engine.weights",
]


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository that git tracks; untracked new ones count too."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.splitlines() if (path := ROOT / name).is_file()]


@pytest.mark.parametrize("module", TORCH_FREE)
def test_it_imports_without_torch(module: str) -> None:
    setup = "import django; django.setup(); " if module.startswith("workbench") else ""
    code = f"{setup}import sys, importlib; importlib.import_module({module!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("False")


def test_no_source_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in tracked("*.py", "*.cu", "*.cuh", "*.html", "*.css", "*.js")
        if not {"vendor", "migrations"} & set(path.parts)
    }
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE}


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    places = re.compile(r"/(?:home|Users|work|root|opt)/[a-z]")
    found = []
    for path in tracked("*.py", "*.md", "*.toml", "*.yml", "*.yaml", "*.txt", "*.html", "*.json", "Makefile", "*.sh"):
        found += [f"{path.relative_to(ROOT)}: {m.group()}" for m in places.finditer(path.read_text("utf-8"))]
    assert not found
