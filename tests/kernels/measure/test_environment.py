"""The commit and the sources beside a figure are the product's own."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.measure.environment import ROOT, checked_out_commit, environment_info, sources_digest


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


def digest(root: Path) -> str:
    sources_digest.cache_clear()
    return sources_digest(root, ("package",))


def test_the_digest_of_the_sources_outlives_a_rewritten_history(checkout):
    before, commit = digest(checkout), checked_out_commit(checkout)
    git(checkout, "commit", "-q", "--amend", "-m", "another subject")
    assert checked_out_commit(checkout) != commit
    assert digest(checkout) == before


def test_the_digest_tells_of_changed_renamed_and_added_files_without_git(checkout):
    shutil.rmtree(checkout / ".git")
    seen = [digest(checkout)]
    code = checkout / "package" / "code.py"
    code.write_text("2")
    seen.append(digest(checkout))
    code.rename(checkout / "package" / "other.py")
    seen.append(digest(checkout))
    (checkout / "package" / "code.cu").write_text("")
    seen.append(digest(checkout))
    assert len(set(seen)) == 4
    (checkout / "package" / "__pycache__").mkdir()
    (checkout / "package" / "__pycache__" / "code.pyc").write_text("3")
    (checkout / "outside.py").write_text("4")
    assert digest(checkout) == seen[-1]


def test_a_copy_that_is_no_checkout_has_the_digest_of_the_environment(tmp_path, monkeypatch):
    for package in ("kernels", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("WORKBENCH_COMMIT", "stated")
    assert environment_info(device="cpu")["sources"] == sources_digest(tmp_path)
    (tmp_path / "kernels" / "plan.py").write_text("")
    sources_digest.cache_clear()
    assert environment_info(device="cpu")["sources"] != sources_digest(tmp_path)
