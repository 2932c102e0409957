"""What a stage may read beside the system's files."""

from pathlib import Path

import pytest

from workers.host import stage_files


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A compiler that is installed in a folder of its own, as toolchains outside of /usr are."""
    program = tmp_path / "toolchain" / "bin" / "cc"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("options", ["", " -march=native"])
def test_a_named_compiler_may_read_its_own_installation(compiler: Path, options: str) -> None:
    found = stage_files.readable({"CC": f"{compiler}{options}"}, [], [])
    assert str(compiler.parents[1]) in found


def test_a_compiler_is_found_on_the_path(compiler: Path) -> None:
    outer = {"CXX": "cc", "PATH": str(compiler.parent)}
    assert str(compiler.parents[1]) in stage_files.readable(outer, [], [])


def test_a_compiler_opens_no_closed_folder(compiler: Path) -> None:
    found = stage_files.readable({"CC": str(compiler)}, [], [compiler.parents[1] / "secrets"])
    assert str(compiler.parents[1]) not in found


def test_a_compiler_at_the_root_does_not_open_everything() -> None:
    assert "/" not in stage_files.readable({"CC": "/bin/sh", "CXX": "nowhere"}, [], [])


def test_the_bytecode_that_a_worker_names_may_be_read(tmp_path: Path) -> None:
    outer = {"PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    assert str(tmp_path / "bytecode") in stage_files.readable(outer, [], [])
    assert str(tmp_path / "bytecode") not in stage_files.readable(outer, [], [tmp_path])
