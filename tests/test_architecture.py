"""The rules of the house that a linter does not check."""

import ast
import re
import subprocess
import warnings
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import kernels.server
from tests.programs import ROOT, python

LONGEST_FILE = 300
TORCH_FREE = [
    "workers.gpu", "workers.documents.stages", "workers.loadtest.load_test", "workbench.celery",
    "workbench.urls", "workbench.wsgi", "workbench.cli.commands", "workbench.embedded", "kernels.ops",
    "kernels.plan", "kernels.hardware", "kernels.registry", "kernels.model_files",
    "kernels.model_files.catalogue", "kernels.model.weights", "kernels.runners", "kernels.__main__",
    "kernels.cli.run",
]  # fmt: skip


def tracked(*patterns: str) -> list[Path]:
    """Files of the repository that git tracks; untracked new ones count too."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [path for name in listed.splitlines() if (path := ROOT / name).is_file()]


def test_they_import_without_torch() -> None:
    """In one process, which names the first that does."""
    code = (
        "import sys, importlib, django\n"
        "for name in sys.argv[1:]:\n"
        "    if name.startswith('workbench'): django.setup()\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    python("-c", code, *sorted(TORCH_FREE))


def test_a_source_file_that_is_too_long_is_named() -> None:
    """By a warning: some are read best as a whole."""
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in tracked("*.py", "*.cu", "*.cuh", "*.html", "*.css", "*.js")
        if not {"vendor", "migrations", "results"} & set(path.parts)
    }
    for name in [name for name, lines in lengths.items() if lines > LONGEST_FILE]:
        warnings.warn(f"{name} has {lengths[name]} lines", stacklevel=1)


def test_few_files_lie_at_the_top_of_kernels() -> None:
    assert len([path for path in tracked("kernels/*") if path.parent == ROOT / "kernels"]) <= 10


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    places = re.compile(r"/(?:home|Users|work|root|opt)/[a-z]")
    result = []
    for path in tracked("*.py", "*.md", "*.toml", "*.yml", "*.yaml", "*.txt", "*.html", "*.json", "Makefile", "*.sh"):
        result += [f"{path.relative_to(ROOT)}: {m.group()}" for m in places.finditer(path.read_text("utf-8"))]
    assert not result


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not by an import inside a function; one for types alone may."""
    graph = grimp.build_graph("kernels", "workers", "workbench", exclude_type_checking_imports=True, cache_dir=None)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


TOUR_STEP = re.compile(r"\[`([\w./-]+)`\]\(([\w./-]+)\) \(([^)]+)\)")


def names_in(path: Path) -> set[str]:
    """What a Python file defines (`Class.method` for methods), or every name that another file calls or defines."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        return set(re.findall(r"\b(\w+)\(", text))
    result = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            result.add(node.name)
        if isinstance(node, ast.ClassDef):
            result |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return result


def test_the_map_of_the_server_has_every_room_and_only_modules_that_exist() -> None:
    folder = ROOT / "kernels" / "server"
    rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
    named = set(re.findall(r"`(\w+)`", kernels.server.__doc__ or ""))
    assert rooms <= named <= rooms | {path.stem for path in folder.rglob("*.py")}


def test_the_tour_leads_to_files_and_names_that_exist() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## Tour\n")[1].split("\n## ")[0]
    questions = [line for line in section.splitlines() if line.startswith("| ") and line.split("|")[1].endswith("? ")]
    assert len(questions) == 12
    for question in questions:
        steps = TOUR_STEP.findall(question)
        assert steps, question
        for shown, target, names in steps:
            assert shown == target
            assert set(re.findall(r"`([\w.]+)`", names)) <= names_in(ROOT / target), target
