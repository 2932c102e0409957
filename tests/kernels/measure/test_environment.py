"""The commit beside a figure is the product's own."""

import subprocess
from pathlib import Path

import pytest

from kernels.measure.environment import checked_out_commit


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one commit and a package folder in it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "code.py").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_the_commit_is_that_of_the_checkout_at_the_root(checkout):
    assert checked_out_commit(checkout) == git(checkout, "rev-parse", "HEAD")


def test_changed_files_are_said(checkout):
    (checkout / "package" / "code.py").write_text("2")
    assert checked_out_commit(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


def test_the_commit_of_another_project_around_the_package_is_not_taken(checkout):
    assert checked_out_commit(checkout / "package") == ""
