"""What a worker says of libraries without bytecode."""

import compileall
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers import one_command
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.host import bytecode, stage_files
from workers.host.child_environment import stage_environment


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "uncompiled_library"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_the_command_that_the_log_names_ends_the_warning(library: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger=bytecode.__name__):
        bytecode.warn([library.name])
    (warning,) = caplog.messages
    subprocess.run(shlex.split(warning.rpartition(": ")[2]), check=True, timeout=60)
    caplog.clear()
    bytecode.warn([library.name])
    assert not caplog.messages


def test_bytecode_is_looked_for_where_python_does(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(library.parent / "elsewhere"))
    assert bytecode.folders_without([library.name]) == [str(library)]
    compileall.compile_dir(library, quiet=1)
    assert bytecode.folders_without([library.name]) == []
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert bytecode.folders_without([library.name]) == [str(library)]


def test_a_confined_stage_loads_the_bytecode_that_its_worker_names(
    library: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The source is changed without its size and time, so what is printed tells which of the two was loaded."""
    source, prefix, scratch = library / "__init__.py", tmp_path_factory.mktemp("bytecode"), tmp_path / "scratch"
    scratch.mkdir()
    outer = os.environ | {"PYTHONPYCACHEPREFIX": str(prefix), "PYTHONPATH": str(tmp_path)}
    source.write_text("print('bytecode')")
    made = source.stat()
    compile_it = [sys.executable, "-m", "compileall", "-q", str(library)]
    subprocess.run(compile_it, env=outer, check=True, timeout=60)
    source.write_text("print('source..')")
    os.utime(source, ns=(made.st_atime_ns, made.st_mtime_ns))
    messages: list[str] = []
    inner = stage_environment(outer, scratch, tmp_path / "caches")
    ended = one_command.run(
        one_command.code_command(f"import {library.name}", inner, scratch),
        ResourceLimits(),
        Bounds(readable=stage_files.readable(outer, [], []), writable=(str(scratch),)),
        messages.append,
        times=(60, 15),
    )
    assert (ended.code, messages) == (0, ["bytecode\n"]), (scratch / "log").read_text()
