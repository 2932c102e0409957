"""Uploads are checked outside the process that serves everybody, on a running workbench."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.migrated import copy_database
from tests.waiting import wait_for
from tests.workbench.intake.conftest import CONFIG, sha
from tests.workbench.web_process import ROOT
from workbench.embedded import Workbench
from workbench.intake import check_files
from workbench.intake.services import checking

MIB = 2**20
CHUNK = 16 * MIB
ROWS = 200_000
SLOW_SECONDS = 600
"""How long anything may take on a busy machine."""
CONFIGURATION = json.dumps(CONFIG).encode()


class Site:
    """A running workbench, and a member of it."""

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        command = [sys.executable, "-m", "tests.workbench.web_seed"]
        seed = subprocess.run(command, cwd=ROOT, env=workbench.env, check=True, capture_output=True, text=True)
        made = json.loads(seed.stdout.splitlines()[-1])
        bearer = {"Authorization": f"Bearer {made['token']}"}
        self.api = httpx.Client(base_url=f"{workbench.url}/api/v1", headers=bearer, timeout=SLOW_SECONDS)
        self.pages = httpx.Client(base_url=workbench.url, cookies={"sessionid": made["session"]}, timeout=SLOW_SECONDS)

    def process(self, name: str) -> psutil.Process:
        """The process of a service: `web`'s child, which serves, or a worker's own."""
        service = next(each for each in self.workbench.services if name in each.name)
        assert service.process is not None
        return psutil.Process(service.process.pid)

    def serving(self) -> psutil.Process:
        return self.process("the web server").children()[0]

    def checking(self) -> list[psutil.Process]:
        """The processes that read files at the moment."""
        found = []
        for each in self.process("intake").children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [each] if check_files.__name__ in each.cmdline() else []
        return found

    def send(self, files: dict[str, bytes], holds: str = "model") -> str:
        """The id of an upload that only needs to be finished."""
        listed = [{"path": path, "size": len(each), "sha256": sha(each)} for path, each in files.items()]
        announced = self.api.post("/uploads", json={"holds": holds, "name": "m", "files": listed}).raise_for_status()
        upload = announced.json()["id"]
        for number, content in enumerate(files.values()):
            at = f"/uploads/{upload}/files/{number}"
            for offset in range(0, len(content), CHUNK):
                headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
                chunk = content[offset : offset + CHUNK]
                self.api.patch(at, content=chunk, headers=headers).raise_for_status()
        return str(upload)

    def finish(self, upload: str) -> float:
        """Finish it; the seconds until it was answered."""
        begun = time.monotonic()
        while (answer := self.api.post(f"/uploads/{upload}/finish", json={"files": []})).status_code == 429:
            time.sleep(0.2)
        assert answer.status_code == 202, answer.text
        return time.monotonic() - begun

    def state(self, upload: str) -> str:
        return str(self.api.get(f"/uploads/{upload}").json()["state"])

    def ended(self, upload: str) -> Any:
        """What came of it."""
        wait_for(lambda: self.state(upload) != "checking", SLOW_SECONDS, "the check")
        return self.api.get(f"/uploads/{upload}").json()


@pytest.fixture
def _checked_here():
    """By the program."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    env = {"SWEEP_SECONDS": "2", "API_REQUESTS_PER_MINUTE": "9999"}
    copy_database(data := tmp_path_factory.mktemp("up"))
    with Workbench(data, 0, [], env) as workbench:
        yield Site(workbench)


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
    command = [sys.executable, "-c", LIMITED]
    done = subprocess.run(command, cwd=ROOT, input=request, check=True, capture_output=True, text=True)
    reason = "reading the file takes more memory than is allowed"
    assert json.loads(done.stdout)["refused"] == [{"file": "tokenizer.json", "field": "", "reason": reason}]


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
            command = [sys.executable, "-c", ATTACKS, *arguments]
            done = subprocess.run(command, cwd=ROOT, input=request, check=True, capture_output=True, text=True)
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer

        assert len(attacks_that_succeed(confined=False)["done"]) == 10
        assert attacks_that_succeed(confined=True) == {"missing": [], "done": []}


def _peak_mib(process: psutil.Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _recording(number: int, rows: int = ROWS) -> dict[str, bytes]:
    content = f"prompt_tokens,output_tokens\n{number + 1},1\n".encode() + b"100,64\n" * (rows - 1)
    return {"calls.csv": content}


def test_large_tokenizer_configs_at_once_cost_the_web_process_nothing(site):
    large = b'{"a": [' + b"{}," * (11 * MIB // 3) + b"{}]}"
    uploads = [site.send({"config.json": CONFIGURATION, "tokenizer_config.json": large + b" " * n}) for n in range(4)]
    serving = site.serving()
    before = _peak_mib(serving)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(site.finish, uploads))
    for upload in uploads:
        found = site.ended(upload)
        assert found["state"] == "refused"
        assert found["files"] == []
        assert found["problem"]["detail"].startswith("tokenizer_config.json: the file has 11,5")
    assert site.serving() == serving
    assert _peak_mib(serving) - before < 50


def test_long_recordings_at_once_hold_up_no_page_and_are_checked_one_at_a_time(site):
    uploads = [site.send(_recording(number), "recording") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(site.finish, uploads))
    times, most, began = [], 0, time.monotonic()
    while sum(site.state(upload) == "finished" for upload in uploads) < 2:
        begun = time.monotonic()
        assert site.pages.get("/models/").status_code == 200
        times.append(time.monotonic() - begun)
        most = max(most, len(site.checking()))
        time.sleep(0.1)
    assert most == 1
    assert max(times) < max(10, (time.monotonic() - began) / 3), "a page waited for a check"
    done = [upload for upload in uploads if site.state(upload) == "finished"]
    for upload in set(uploads) - set(done):
        site.api.delete(f"/uploads/{upload}").raise_for_status()
    assert site.ended(done[0])["recording"]["requests"] == ROWS


def test_a_check_whose_worker_was_killed_is_done_again(site):
    upload = site.send(_recording(9), "recording")
    site.finish(upload)
    child = wait_for(lambda: next(iter(site.checking()), None), SLOW_SECONDS, "the check")
    service = next(each for each in site.workbench.services if "intake" in each.name)
    assert service.process is not None
    service.process.send_signal(signal.SIGKILL)
    wait_for(lambda: not child.is_running(), SLOW_SECONDS, "the end of the child")
    assert site.state(upload) == "checking"
    service.stop()
    service.start()
    assert site.ended(upload)["recording"]["requests"] == ROWS


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
