"""A stage whose code was taken over reaches nothing: the probe runs as root, as a user, and under Docker's profile."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.serving.worker import runtime_folder

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ORDINARY = 54_321 if os.geteuid() == 0 else os.geteuid()
USERS = [0, ORDINARY] if os.geteuid() == 0 else [ORDINARY]
SOMEBODY = 54_322
PROCESSES = 48
MEMORY = 512 * 2**20


def _reachable(path: Path) -> bool:
    """Whether every user may reach the file."""
    return path.exists() and all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


PYTHON = next(path for path in (Path(sys.executable).resolve(), Path("/usr/bin/python3")) if _reachable(path))


@pytest.fixture
def host() -> Iterator[dict[str, Any]]:
    """A worker's machine in a folder that everybody reaches: code, data, models, caches, and who listens."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, contextlib.ExitStack() as open_sockets:
        root = Path(folder)
        root.chmod(0o755)
        data = root / "data"
        for name in ("secret_key", "db.sqlite3", "worker_token", "worker/models/own/config.json",
                     "worker/models/foreign/config.json", "worker/compilers/own/kernel",
                     "worker/compilers/own/old/kernel", "worker/compilers/foreign/kernel"):  # fmt: skip
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text("secret")
            (data / name).chmod(0o600)
        data.chmod(0o700)
        (root / "scratch").mkdir()
        for name in ("__init__.py", "host/__init__.py", "host/child.py", "host/stage_files.py",
                     "host/template_process.py", "host/threads.py", "host/vllm_folder.py", "shared/__init__.py",
                     "shared/lifeline.py"):  # fmt: skip
            (root / "code/workers" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "workers" / name, root / "code/workers" / name)
        shutil.copytree(ROOT / "workers/confinement", root / "code/workers/confinement")
        (root / "code/tests/workers").mkdir(parents=True)
        shutil.copy(HERE.parent / "one_command.py", root / "code/tests/workers")
        for name in ("worker.py", "attacks.py"):
            shutil.copy(HERE / name, root / "code")
        ports = [open_sockets.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
        listener = open_sockets.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(data / "socket"))
        listener.listen()
        pages = open_sockets.enter_context(tempfile.TemporaryDirectory(dir=runtime_folder()))
        Path(pages, "page").write_text("<p>")
        shared = open_sockets.enter_context(tempfile.NamedTemporaryFile(dir="/dev/shm"))
        if os.geteuid() == 0:
            os.chown(shared.name, SOMEBODY, SOMEBODY)
        yield {
            "root": root,
            "targets": {
                "data": str(data), "model": str(data / "worker/models/own"), "code": str(root / "code"),
                "cache": str(data / "worker/compilers/own"), "redis": ports[0], "web": ports[1],
                "pages": pages, "shared": shared.name if os.geteuid() == 0 else None,
                "processes": PROCESSES, "allocate": 0,
            },
        }  # fmt: skip


def _as_stage(host: dict[str, Any], user: int, profile: str, **kwargs: Any) -> dict[str, Any]:
    """How the attacks of a stage ended that a worker of this user started under this profile."""
    root = host["root"]
    if os.geteuid() == 0:
        pages = Path(host["targets"]["pages"])
        for path in [root, *root.rglob("*"), pages, *pages.iterdir()]:
            os.chown(path, user, user)
    wanted = {
        "user": user, "profile": profile, "scratch": str(root / "scratch"), "memory": MEMORY, "forked": False,
        **kwargs, "targets": host["targets"] | kwargs.get("targets", {}),
    }  # fmt: skip
    done = subprocess.run(
        [str(PYTHON), "-S", str(root / "code/worker.py"), json.dumps(wanted)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root / "code"), "WORKER_TOKEN": "secret"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("user", "profile", "forked"),
    [(USERS[0], "none", False), (USERS[0], "docker", True), (USERS[-1], "none", True), (USERS[-1], "docker", False)],
)
def test_no_attack_succeeds_and_what_stages_need_works(
    host: dict[str, Any], user: int, profile: str, forked: bool
) -> None:
    ended = _as_stage(host, user, profile, forked=forked)
    assert ended["code"] == 0, ended["log"]
    answers, protection = json.loads(ended["lines"][-1]), ended["protection"]
    assert {name: answer for name, answer in answers["needs"].items() if answer != "done"} == {}
    assert [name for name, answer in answers["attacks"].items() if answer == "done"] == []
    assert any(held.startswith("no network") for held in protection["held"])
    # Without namespaces it writes into /dev/shm what other processes of its user may read.
    shared = "It shares /dev/shm and System V memory with the machine: no namespaces are to be had."
    assert protection["missing"] == ([] if "no network" in protection["held"] else [shared])


@pytest.mark.parametrize("user", USERS)
def test_a_stage_that_connects_to_itself_reaches_nothing_else(host: dict[str, Any], user: int) -> None:
    """But a Unix socket of its worker's own user, as its protection then says. Its datagrams stay in its network."""
    ended = _as_stage(host, user, "none", loopback=True)
    answers = json.loads(ended["lines"][-1])["attacks"]
    reached = [name for name, answer in answers.items() if answer == "done" and name != "send a datagram"]
    missing = ended["protection"]["missing"]
    own_network = "no network but its own" in ended["protection"]["held"]
    if user and own_network:
        assert reached == ["connect to a Unix socket"]
        assert missing == ["It can connect to Unix sockets of the worker's user."]
    else:
        assert (reached, missing) == ([], [])


@pytest.mark.parametrize(("user", "forked"), [(USERS[0], False), (USERS[-1], True)])
def test_more_memory_than_its_own_ends_it(host: dict[str, Any], user: int, forked: bool) -> None:
    within = _as_stage(host, user, "none", targets={"allocate": MEMORY // 4}, forked=forked)
    assert json.loads(within["lines"][-1]) == {"allocated": MEMORY // 4}
    beyond = _as_stage(host, user, "none", targets={"allocate": 2 * MEMORY}, forked=forked)
    assert (beyond["code"] != 0, beyond["lines"]) == (True, [])


def test_the_attacks_succeed_where_nothing_confines(host: dict[str, Any]) -> None:
    """So the probe proves something. Attacks that take root's rights, or that the machine may refuse, are left out."""
    targets = host["targets"] | {"worker": os.getpid()}
    done = subprocess.run(
        [str(PYTHON), "-S", str(HERE / "attacks.py"), json.dumps(targets)],
        cwd=host["root"] / "scratch", capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    answers = json.loads(done.stdout)["attacks"]
    refusable = {"enter the worker's network", "enter the guard's network", "make a user namespace", "trace the guard"}
    refusable |= {"set up io_uring", "become root", "change a setting of the kernel", "read the worker's memory"}
    assert {name: answer for name, answer in answers.items() if answer != "done" and name not in refusable} == {}


def test_what_the_kernel_refuses_is_said_and_may_be_insisted_on(host: dict[str, Any]) -> None:
    ended = _as_stage(host, USERS[0], "no-landlock", targets={"allocate": 1})
    assert [sentence for sentence in ended["protection"]["missing"] if "Landlock" in sentence]
    assert ended["lines"] != []
    refused = _as_stage(host, USERS[-1], "no-landlock", targets={"allocate": 1}, required=True)
    assert "Landlock" in refused["unconfined"]
    assert refused["lines"] == []
