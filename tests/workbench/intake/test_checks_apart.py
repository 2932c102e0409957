"""Uploads are checked by a program that reaches its own files alone. Who starts it: embedded/test_running_site.py."""

import json
import os
import socket
from typing import Any

import pytest

from tests.programs import python
from tests.workbench.intake.conftest import CONFIG
from workbench.intake.services import checking

MIB = 2**20
CONFIGURATION = json.dumps(CONFIG).encode()


@pytest.fixture
def _checked_here():
    """By the program."""


LIMITED = """
import json, resource, sys
from workbench.intake import check_files
resource.setrlimit(resource.RLIMIT_AS, (300 * 2**20, 300 * 2**20))
json.dump(check_files.answer(json.load(sys.stdin)), sys.stdout)
assert not {"django", "torch", "celery"} & set(sys.modules)
"""


def test_a_file_that_takes_too_much_memory_ends_in_a_sentence_without_django_or_torch(tmp_path):
    (tmp_path / "config.json").write_bytes(CONFIGURATION)
    (tmp_path / "tokenizer.json").write_bytes(b'{"a": [' + b'{"":1},' * (13 * MIB // 7) + b"{}]}")
    files = {name: str(tmp_path / name) for name in ("config.json", "tokenizer.json")}
    request = json.dumps({"check": "model", "files": files, "most_bytes": 2**30})
    answer = json.loads(python("-c", LIMITED, text=request))
    reason = "reading the file takes more memory than is allowed"
    assert answer["refused"] == [{"file": "tokenizer.json", "field": "", "reason": reason}]


ATTACKS = """
import json, os, socket, sys, tempfile
from workbench.intake import check_files
data, port, confined = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "True"

def forked():
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)

def fill():
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.write(b"x")

ATTACKS = {
    "read the secret key": lambda: open(f"{data}/secret_key").read(),
    "read another upload": lambda: open(f"{data}/another").read(),
    "read the parent's environment": lambda: open(f"/proc/{os.getppid()}/environ").read(),
    "write to its own file": lambda: open(f"{data}/config.json", "a"),
    "write a file": lambda: open(f"{data}/new", "w"),
    "fill the shared memory": fill,
    "remove a file": lambda: os.unlink(f"{data}/another"),
    "connect": lambda: socket.create_connection(("127.0.0.1", port)),
    "start a process": forked,
    "run a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
}

def answer(request):
    json.load(open(request["files"]["config.json"]))
    done = []
    for name, attack in ATTACKS.items():
        try:
            attack()
            done.append(name)
        except OSError:
            pass
    return {"done": done}

check_files.answer = answer
if not confined:
    check_files._confine = lambda request: []
check_files.main()
"""


def test_a_check_that_was_taken_over_reaches_its_own_files_alone(tmp_path):
    """Where nothing confines it, each of these attacks succeeds."""
    files = {name: tmp_path / name for name in ("config.json", "secret_key", "another")}
    with socket.create_server(("127.0.0.1", 0)) as server:

        def attacks_that_succeed(confined: bool) -> dict[str, Any]:
            for path in files.values():
                path.write_bytes(CONFIGURATION)
            own = {"config.json": str(files["config.json"])}
            request = json.dumps({"check": "config", "files": own, "most_bytes": 2**30, "data": str(tmp_path)})
            arguments = [str(os.getpid()), str(tmp_path), str(server.getsockname()[1]), str(confined)]
            answer: dict[str, Any] = json.loads(python("-c", ATTACKS, *arguments, text=request))
            return answer

        assert len(attacks_that_succeed(confined=False)["done"]) == 10
        assert attacks_that_succeed(confined=True) == {"missing": [], "done": []}


def test_the_program_finds_packages_that_lie_elsewhere_and_knows_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os, pathlib\n"
        "pathlib.Path(__file__).with_name('environment.json').write_text(json.dumps(sorted(os.environ)))\n"
    )
    config = tmp_path / "config.json"
    config.write_bytes(CONFIGURATION)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("WORKER_TOKEN", "a secret")
    assert checking._facts("config", {"config.json": config})
    seen = set(json.loads((tmp_path / "environment.json").read_text()))
    assert "PYTHONPATH" in seen
    assert "WORKER_TOKEN" not in seen
