"""A process that has imported what stages import, and forks their confined processes, so that these start at once.

It knows no secret and nothing of a run, and does not touch CUDA, which survives no fork. `Template` is the worker's
side, `main` what the process runs. What it forks is the guard of `confinement/guard.py`; the worker adopts it, so that
it is the worker's child as one that the worker has started itself.
"""

import contextlib
import gc
import importlib
import json
import logging
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from workers.confinement import system
from workers.confinement.bounds import Bounds, ResourceLimits
from workers.confinement.guard import guard
from workers.shared.lifeline import die_with_parent

log = logging.getLogger(__name__)

ROOT = str(Path(__file__).resolve().parents[2])
START = f"import sys; sys.path.insert(0, {ROOT!r}); from workers.host.template_process import main; main()"
IMPORTED_LATE = ("triton", "cupy", "transformers.generation", "transformers.models.llama.modeling_llama")
"""What the modules that bring torch import only when it is needed."""
INDUCTOR = ("torch._inductor.compile_fx", "torch.utils.cpp_extension")
"""What each process imports that compiles for a CPU, in one to three seconds."""
VEC_ISA_OK = "TORCHINDUCTOR_VEC_ISA_OK"
"""Inductor's variable that spares it the check of `all_isas_build`."""
CHECK_SECONDS = 20.0
"""The longest that the first fork waits for the end of that check, which would disturb what a stage measures."""
_more_environment: dict[str, str] = {}
"""Variables of every fork, beside those that it is given."""
READY = b"ready"
ANSWER_SECONDS = 30
REQUEST_BYTES = 2**18
FORK_SAFE_THREADS = ("jemalloc_bg_thd",)
"""Threads by whose library a fork is prepared: jemalloc, which pyarrow brings, takes its locks before one."""
GPUS = "/dev/nvidia"
DESCRIPTORS = 4
"""Standard input, output and error of the forked process, and where it reports how far it is confined."""


class Template:
    """The worker's side. It is made, and used, on the thread that lives longest: its process dies with that thread."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        """Start to import the modules in a process with this environment."""
        system.prctl(system.CHILD_SUBREAPER, 1)
        self._modules, self._env = modules, dict(env)
        self._ready = False
        self._start()

    @property
    def ready(self) -> bool:
        """Whether it has imported everything and waits."""
        if not self._ready:
            self._link.setblocking(False)
            with contextlib.suppress(OSError):
                self._ready = self._link.recv(len(READY)) == READY
        return self._ready

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int | None:
        """The process id of the guard of a new confined process; None where there is no template to fork.

        `request` has the limits, the bounds, the module that is run, its arguments, environment and directory. Raises
        OSError where it does not answer: it may have forked, so nothing else may use the descriptors.
        """
        if self._process.poll() is not None:
            log.warning("template process exited (code %s), restarting it", self._process.returncode)
            self._link.close()
            self._start()
        if not self.ready:
            return None
        try:
            self._link.settimeout(ANSWER_SECONDS)
            socket.send_fds(self._link, [json.dumps(request).encode()], descriptors)
            answer = self._link.recv(REQUEST_BYTES).decode()
        except OSError as error:
            log.warning("template process not responding: %s", error)
            self._process.kill()
            raise
        if not answer.isdecimal():
            log.warning("template process not forked: %s", answer or "it exited")
            return None
        return int(answer)

    def close(self) -> None:
        """End the process, and adopt no more orphans: who has no template may not look for them."""
        self._process.kill()
        self._process.wait()
        self._link.close()
        system.prctl(system.CHILD_SUBREAPER, 0)

    def _start(self) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ready = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, str(theirs.fileno()), str(os.getpid()), *self._modules],
                env=self._env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )


def main() -> None:
    """Arguments: the descriptor of the socket to the worker, the worker's process id, the modules to import."""
    link, worker = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    die_with_parent(worker)
    gc.disable()  # a sixth of the imports' time
    for name in sys.argv[3:]:
        importlib.import_module(name)
    late = IMPORTED_LATE if "torch" in sys.modules else ()
    compiles_for_cpu = bool(late) and not Path(f"{GPUS}0").exists()
    for name in (*late, *INDUCTOR) if compiles_for_cpu else late:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # no collection of a fork looks at them, which would copy their pages
    gc.enable()
    os.waitpid(_fork_idle(), 0)
    check = _fork_isa_check() if compiles_for_cpu else None
    link.send(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(link, REQUEST_BYTES, DESCRIPTORS)
        if not message:
            return
        if check is not None:
            if _passed(check):
                _skip_isa_checks()
            check = None
        answer = why_not() or str(_fork_guard(json.loads(message), descriptors, worker))
        for descriptor in descriptors:
            os.close(descriptor)
        link.send(answer.encode())


def why_not() -> str:
    """Why a fork of this process would not be as good as a new process, in a few words; "" where it is."""
    names = [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")]
    if len(others := [name for name in names if name not in FORK_SAFE_THREADS]) > 1:
        return f"it runs {len(others)} threads: {', '.join(sorted(others))}"
    opened = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    if device := next((path for path in opened if path.startswith(GPUS)), ""):
        return f"it has opened {device}"
    torch = sys.modules.get("torch")
    return "it has initialized CUDA" if torch and torch.cuda.is_initialized() else ""


def all_isas_build() -> bool:
    """Whether the compiler builds code for all of this CPU's vector sets. Inductor takes 10 s to check it per cache."""
    from torch._inductor.cpu_vec_isa import supported_vec_isa_list, valid_vec_isa_list, x86_isa_checker

    flags = x86_isa_checker()
    known = [kind for kind in supported_vec_isa_list if all(flag in flags for flag in str(kind).split())]
    return bool(flags) and len(valid_vec_isa_list()) == len(known)


def _fork_isa_check() -> int:
    """The id of a process, the leader of its group, that ends with code 0 if `all_isas_build`, by what an earlier one
    has built where the environment names a cache: Inductor knows it by the compiler's version, the flags and torch's.
    """
    template = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    die_with_parent(template)
    code = 1
    with contextlib.suppress(Exception), tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
        code = int(not all_isas_build())
    os._exit(code)


def _passed(check: int) -> bool:
    """Whether the process ends with code 0 within CHECK_SECONDS; one that does not is killed with its group."""
    until = time.monotonic() + CHECK_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(check, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.01)
    os.killpg(check, signal.SIGKILL)
    os.waitpid(check, 0)
    return False


def _skip_isa_checks() -> None:
    """Has Inductor in this process, in its forks and in what these start build for all vector instruction sets."""
    from torch._inductor import config

    config.cpp.vec_isa_ok = True
    _more_environment[VEC_ISA_OK] = "1"


def _move_inductor_headers() -> None:
    """Inductor took the folder of its precompiled headers from the template's environment when it was imported."""
    cache: Any = sys.modules.get("torch._inductor.codecache")
    if cache is not None:
        cache._HEADER_DIR = os.path.join(cache.default_cache_dir(), "precompiled_headers")
        cache._HEADER_LOCK_DIR = os.path.join(cache._HEADER_DIR, "locks")


def _fork_idle() -> int:
    """OpenBLAS, which numpy brings, starts threads when it is loaded; a fork ends them until they are used."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return pid


def _fork_guard(request: dict[str, Any], descriptors: Sequence[int], worker: int) -> int:
    """The process id of the guard, which the worker has adopted: the process between them has ended."""
    answer_end, tell = os.pipe()
    between = os.fork()
    if between == 0:
        between = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_guard(request, descriptors, worker, between)
        os.write(tell, str(pid).encode())
        os._exit(0)
    os.close(tell)
    os.waitpid(between, 0)
    with os.fdopen(answer_end) as answer:
        return int(answer.read(20))


def _become_guard(request: dict[str, Any], descriptors: Sequence[int], worker: int, between: int) -> NoReturn:
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(DESCRIPTORS, os.sysconf("SC_OPEN_MAX"))
    while os.getppid() == between:
        time.sleep(0.001)
    limits, bounds = ResourceLimits(**request["limits"]), Bounds(**request["bounds"])
    guard(limits, bounds, worker, DESCRIPTORS - 1, lambda: _run(request))


def _run(request: dict[str, Any]) -> NoReturn:
    """Run the module as `python -m` does, in this process, which has nothing left of the template but its imports."""
    system.prctl(system.DUMPABLE, 1)  # as after execve; a change of user takes it away, and with it /proc/self
    inherited = {"", ROOT, *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    os.environ.clear()
    os.environ.update(_more_environment | request["env"])
    os.chdir(request["cwd"])
    search = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [request["cwd"], *search, *(path for path in sys.path if path not in inherited)]
    sys.argv[1:] = request["arguments"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None
    _move_inductor_headers()
    multiprocessing.current_process().authkey = os.urandom(32)
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    raise SystemExit
