"""The stage's process: confined, limited, and never left behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import alive, wait_for
from tests.workers import one_command
from tests.workers.templates import ready_template
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.host.child import ExitStatus
from workers.host.stage_files import python_files
from workers.host.template_process import Template

Run = Callable[..., tuple[ExitStatus, list[str]]]


@pytest.fixture(scope="module", params=["started", "forked"])
def template(request: pytest.FixtureRequest) -> Iterator[Template | None]:
    if request.param == "started":
        yield None
        return
    made = ready_template("email.mime.text")
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path, template: Template | None) -> Run:
    def _run(
        code: str, stop: threading.Event | None = None, times: tuple[float, float] = (120, 15), **limits: int
    ) -> tuple[ExitStatus, list[str]]:
        lines: list[str] = []
        ended = one_command.run(
            one_command.code_command(code, {"PATH": os.environ["PATH"]}, tmp_path), ResourceLimits(**limits),
            Bounds(readable=python_files(), writable=(str(tmp_path),)), lines.append, stop=stop, times=times,
            template=template,
        )  # fmt: skip
        return ended, lines

    return _run


def test_it_passes_lines_on_keeps_errors_in_the_log_and_tells_the_signal_that_killed_it(
    run: Run, tmp_path: Path
) -> None:
    ended, lines = run("import sys; print('one'); print('two'); print('oops', file=sys.stderr); sys.exit(3)")
    assert (ended, lines) == (ExitStatus(3, "exit"), ["one\n", "two\n"])
    assert (tmp_path / "log").read_text() == "oops\n"
    assert run("import os; os.abort()")[0] == ExitStatus(-signal.SIGABRT, "exit")


def test_stop_kills_the_command_and_its_children(run: Run, tmp_path: Path) -> None:
    stop = threading.Event()
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)"
    )
    waiting = threading.Thread(target=lambda: (_wait(tmp_path / "ready"), stop.set()))
    waiting.start()
    ended, _ = run(code, stop)
    waiting.join()
    assert ended == ExitStatus(-9, "stopped")
    _wait_until_gone([int((tmp_path / "pid").read_text())])


ALONE = "import ctypes; ctypes.CDLL(None).prctl(1, 0); "


@pytest.mark.parametrize(("first", "more"), [("", ""), (ALONE, ", start_new_session=True")], ids=["within", "left"])
def test_what_a_finished_command_left_running_is_killed_as_well_outside_its_session(
    run: Run, first: str, more: str
) -> None:
    code = (
        "import subprocess, sys\n"
        f"print(subprocess.Popen([sys.executable, '-c', '{first}import time; time.sleep(600)'], stdout=2{more}).pid)"
    )
    ended, lines = run(code)
    assert ended.code == 0
    _wait_until_gone([int(lines[0])])


def _out_of_time(run: Run, code: str, grace: float) -> ExitStatus:
    """How the code ends that outlives its seconds; it prints a line as soon as it is ready for that."""
    for seconds in (1, 4, 16, 64):
        ended, lines = run(code, times=(seconds, grace))
        if lines:
            return ended
    raise AssertionError("it was never ready")


def test_out_of_time_it_is_asked_and_then_killed(run: Run, tmp_path: Path) -> None:
    told = "; print(1, flush=True); time.sleep(600)"
    polite = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7))" + told
    assert _out_of_time(run, polite, grace=60) == ExitStatus(7, "timeout")
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN)" + told
    assert _out_of_time(run, stubborn, grace=0.5) == ExitStatus(-9, "timeout")


def test_limits_hold(run: Run, tmp_path: Path) -> None:
    assert run("while True: pass", cpu_seconds=1)[0] == ExitStatus(-signal.SIGXCPU, "exit")
    ended, _ = run("with open('big', 'wb') as f: f.write(bytes(2000))", file_bytes=1000)
    assert ended.code != 0
    assert "File too large" in (tmp_path / "log").read_text()
    ended, lines = run("import resource as r; print(r.getrlimit(r.RLIMIT_AS)[0] == r.RLIM_INFINITY)")
    assert lines == ["True\n"]


@pytest.mark.parametrize("made", ["None", "ready_template('email.mime.text')"])
def test_it_dies_with_the_thread_that_started_it(tmp_path: Path, made: str) -> None:
    """A parent that is killed outright leaves neither the command nor what the command started, nor its template."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pids', 'w').write(f'{__import__(\"os\").getpid()} {child.pid}')\n"
        "open('ready', 'w').close()\n"
        "time.sleep(600)"
    )
    parent = (
        "import os\n"
        "from pathlib import Path\n"
        "from tests.workers import one_command\n"
        "from tests.workers.templates import ready_template\n"
        "from workers.confinement.bounds import Bounds, ResourceLimits\n"
        "from workers.host.stage_files import python_files\n"
        f"folder, template = Path({str(tmp_path)!r}), {made}\n"
        "(folder / 'template').write_text(str(template.pid if template else os.getpid()))\n"
        f"command = one_command.code_command({code!r}, dict(PATH=os.environ['PATH']), folder)\n"
        "bounds = Bounds(python_files(), (str(folder),))\n"
        "one_command.run(command, ResourceLimits(), bounds, print, template=template)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=Path(__file__).parents[3])
    _wait(tmp_path / "ready")
    process.kill()
    process.wait()
    _wait_until_gone([int(pid) for name in ("pids", "template") for pid in (tmp_path / name).read_text().split()])


def _wait_until_gone(pids: list[int]) -> None:
    wait_for(lambda: not any(map(alive, pids)), 120, "the end of what is left")


def _wait(path: Path) -> None:
    wait_for(path.exists, 120, path.name)
