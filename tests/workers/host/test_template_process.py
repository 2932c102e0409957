"""The template process: what is forked from it starts at once, has nothing of another run, and is lost with no run."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.waiting import alive, wait_for
from tests.workers import one_command
from tests.workers.templates import ready_template
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.host.child import Child
from workers.host.child_environment import template_environment
from workers.host.stage_files import python_files
from workers.host.template_process import ROOT, VEC_ISA_OK, Template

IMPORTED = "import sys; print('email.mime.text' in sys.modules)"


@pytest.fixture
def template() -> Iterator[Template]:
    made = ready_template("email.mime.text")
    yield made
    made.close()


def _lines(folder: Path, code: str, template: Template, **env: str) -> list[str]:
    lines: list[str] = []
    ended = one_command.run(
        one_command.code_command(code, {"PATH": os.environ["PATH"], **env}, folder), ResourceLimits(),
        Bounds(readable=python_files(), writable=(str(folder),)), lines.append, template=template,
    )  # fmt: skip
    assert ended.code == 0, (folder / "log").read_text()
    return [line.strip() for line in lines]


def test_a_fork_has_imported_what_the_template_has_and_nothing_of_another(tmp_path: Path, template: Template) -> None:
    code = (
        "import json, multiprocessing, os, sys, tempfile\n"
        "print(json.dumps({'imported': 'email.mime.text' in sys.modules, 'environment': dict(os.environ),\n"
        "  'temporary': tempfile.gettempdir(), 'key': multiprocessing.current_process().authkey.hex(),\n"
        "  'files': len(os.listdir('/proc/self/fd')), 'path': sys.path[:2], 'name': __name__, 'argv': sys.argv[1:],\n"
        "  'shell': os.popen('echo $RUN').read()}))"
    )
    result = []
    for run in ("one", "two"):
        folder = tmp_path / run
        (folder / "tmp").mkdir(parents=True)
        env = {run: "its own", "RUN": run, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(folder / "code")}
        (line,) = _lines(folder, code, template, **env)
        result.append(json.loads(line))
        environment = result[-1].pop("environment")
        environment.pop("LC_CTYPE", None)
        assert environment == {"PATH": os.environ["PATH"], **env}
        assert result[-1].pop("path") == [str(folder), str(folder / "code")]
        assert result[-1].pop("temporary") == str(folder / "tmp")
        assert result[-1].pop("shell") == f"{run}\n"
    assert result[0].pop("key") != result[1].pop("key")
    assert result[0] == result[1] == {"imported": True, "files": 4, "name": "__main__", "argv": []}


def test_a_template_that_was_killed_is_replaced_and_meanwhile_a_process_is_started(
    tmp_path: Path, template: Template
) -> None:
    os.kill(template.pid, signal.SIGKILL)
    wait_for(lambda: not alive(template.pid), 60, "the end of the template")
    assert _lines(tmp_path, IMPORTED, template) == ["False"]
    wait_for(lambda: template.ready, 120, "the next template")
    assert _lines(tmp_path, IMPORTED, template) == ["True"]


def test_a_template_that_is_killed_leaves_what_was_forked_running(tmp_path: Path, template: Template) -> None:
    command = one_command.code_command("import sys; print(1, flush=True); sys.stdin.readline(); print(2)", {}, tmp_path)
    lines: list[str] = []
    bounds = Bounds(readable=python_files(), writable=(str(tmp_path),))
    with closing(Child(command, ResourceLimits(), bounds, lines.append, template)) as child:
        wait_for(lambda: lines, 120, "its first line")
        os.kill(template.pid, signal.SIGKILL)
        wait_for(lambda: not alive(template.pid), 60, "the end of the template")
        child.send("on")
        assert child.wait(120, 15, threading.Event(), lambda: False) == "exit"
        assert child.close() == 0
    assert lines == ["1\n", "2\n"]


def test_where_the_compiler_does_not_build_it_all_each_fork_tries(tmp_path: Path) -> None:
    """Where it does, none tries: confinement/test_compilers.py."""
    code = "import os, torch._inductor.config as c; print(os.environ.get('TORCHINDUCTOR_VEC_ISA_OK'), c.cpp.vec_isa_ok)"
    env = {**template_environment(os.environ), VEC_ISA_OK: "0"}
    with closing(ready_template("tests.workers.template_states.torch_alone", env=env)) as template:
        assert _lines(tmp_path, code, template) == ["None False"]


TWO_CHECKS = """
import pathlib, sys
import torch._inductor.cpu_vec_isa
from workers.host import template_process
for _ in range(2):
    passed = template_process._passed(template_process._fork_isa_check())
    print(passed, pathlib.Path(sys.argv[1]).read_text().count("."))
"""


def test_what_an_earlier_check_has_built_is_not_built_again(tmp_path: Path) -> None:
    """The compiler is one that builds nothing of what it is given, and counts."""
    built, compiler = tmp_path / "built", tmp_path / "g++"
    compiler.write_text(
        f"""#!/bin/sh
case "$*" in
*-o*) echo . >> {built}; while [ "$1" != -o ]; do shift; done; exec g++ -shared -o "$2" -x c++ /dev/null ;;
*) exec g++ "$@" ;;
esac
"""
    )
    compiler.chmod(0o755)
    env = {**template_environment(os.environ), "CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "kept")}
    env.pop(VEC_ISA_OK)
    command = [sys.executable, "-c", TWO_CHECKS, str(built)]
    done = subprocess.run(command, env=env | {"PYTHONPATH": ROOT}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert int(first.removeprefix("True ")) > 0


STATES = {"thread": "it runs 2 threads", "device": "it has opened /dev/zero", "cuda": "it has initialized CUDA"}


@pytest.mark.parametrize("state", [*STATES, "jemalloc"])
def test_a_template_is_not_forked_with_what_no_fork_would_survive(
    tmp_path: Path, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that prepares for forks, as jemalloc's does, is no obstacle."""
    with closing(ready_template("email.mime.text", f"tests.workers.template_states.{state}")) as template:
        assert _lines(tmp_path, IMPORTED, template) == [str(state not in STATES)]
    reasons = [message.partition(": ")[2][: len(STATES.get(state, ""))] for message in caplog.messages]
    assert reasons == [STATES[item] for item in STATES if item == state]
