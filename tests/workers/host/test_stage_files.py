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


def test_a_named_compiler_may_read_its_own_installation_but_no_closed_folder(compiler: Path) -> None:
    installation = compiler.parents[1]
    for outer in (
        {"CC": f"{compiler}"},
        {"CC": f"{compiler} -march=native"},
        {"CXX": "cc", "PATH": str(compiler.parent)},
    ):
        assert str(installation) in stage_files.readable(outer, [], [])
    assert str(installation) not in stage_files.readable({"CC": str(compiler)}, [], [installation / "secrets"])
    assert "/" not in stage_files.readable({"CC": "/bin/sh", "CXX": "nowhere"}, [], [])


def test_the_bytecode_that_a_worker_names_may_be_read(tmp_path: Path) -> None:
    outer = {"PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}
    assert str(tmp_path / "bytecode") in stage_files.readable(outer, [], [])
    assert str(tmp_path / "bytecode") not in stage_files.readable(outer, [], [tmp_path])
