"""docker-compose.yml without a container engine: the same commands and environments, as processes of this machine.

What a container's network and volumes do is done by replacing addresses and folders, listed in `Compose.here`. What the
engine confines (networks, capabilities, memory) is not tried.
"""

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from kernels.load.server_process import reserve_port
from tests.debian import nginx_bin
from tests.programs import ROOT
from tests.waiting import wait_for

SCHEMA = Path(sys.prefix) / "clients" / "check_jsonschema" / "builtin_schemas" / "vendor" / "compose-spec.json"
"""The Compose specification's schema, which `make setup` installs (constraints/clients.txt)."""


def image_environment() -> dict[str, str]:
    """What the Dockerfile sets for every process."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    lines = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    return dict(word.split("=", 1) for line in lines for word in shlex.split(line))


def image_command() -> list[str]:
    """What the image runs when the service names no command."""
    return list(json.loads((ROOT / "Dockerfile").read_text().rpartition("\nCMD ")[2]))


def filled(text: str, given: Mapping[str, str]) -> str:
    """Fills in ${NAME}, ${NAME:-default}, ${NAME:+replacement} and ${NAME:?message} as compose does."""

    def value(match: re.Match[str]) -> str:
        name, how, rest = match.groups()
        own = given.get(name, "")
        if how == ":+":
            return rest if own else ""
        result = own or (rest if how == ":-" else "")
        assert result, f"{name}: {rest}"
        return result

    return re.sub(r"\$\{([A-Z_]+)(?:(:-|:\?|:\+)([^}]*))?\}", value, text)


class Compose:
    """The services of docker-compose.yml; `env_file` is what .env says. `postgres` is the server's host:port."""

    def __init__(self, folder: Path, postgres: str, env_file: Mapping[str, str]) -> None:
        self.folder = folder
        self.ports = {name: reserve_port() for name in ("http", "https", "web", "worker-api", "redis")}
        self.env_file = {"PUBLIC_URL": f"https://localhost:{self.ports['https']}", **env_file}
        self.services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.here = {
            "postgres:5432": postgres,
            "redis:6379": f"127.0.0.1:{self.ports['redis']}",
            "worker-api:8001": f"127.0.0.1:{self.ports['worker-api']}",
            "0.0.0.0:8001": f"127.0.0.1:{self.ports['worker-api']}",
            "127.0.0.1:8001": f"127.0.0.1:{self.ports['worker-api']}",
            "0.0.0.0:8000": f"127.0.0.1:{self.ports['web']}",
            "127.0.0.1:8000": f"127.0.0.1:{self.ports['web']}",
            " web:8000": f" 127.0.0.1:{self.ports['web']}",
            "127.0.0.1:8443": f"127.0.0.1:{self.ports['https']}",
            "listen 8443": f"listen 127.0.0.1:{self.ports['https']}",
            "listen 8080": f"listen 127.0.0.1:{self.ports['http']}",
            "/tmp/nginx.pid": f"{folder}/nginx.pid",
            "/tmp/celerybeat": f"{folder}/celerybeat",
            "/var/cache/nginx": f"{folder}/front",
            "/etc/nginx/tls": f"{folder}/tls",
        }
        self._make_certificate()

    def start(self, name: str, more: Mapping[str, str] | None = None) -> None:
        """Start a service's process, with its output in a log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._command(name), cwd=ROOT, env={**self.environment(name), **(more or {})},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def stop(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for the condition, while every process runs."""
        wait_for(condition, 300, what, self.logs, self.processes)

    def run(self, name: str, *command: str) -> str:
        """What `docker compose run NAME COMMAND` would print."""
        words = list(command) or self._command(name)
        words = [sys.executable if words[0] == "python" else words[0], *words[1:]]
        done = subprocess.run(words, cwd=ROOT, env=self.environment(name), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def healthy(self, name: str) -> bool:
        """Whether the service's health check succeeds."""
        test = self._here(self.services[name]["healthcheck"]["test"])
        assert test[0] == "CMD"
        words = [sys.executable if test[1] == "python" else test[1], *test[2:]]
        return subprocess.run(words, env=self.environment(name), capture_output=True).returncode == 0

    def environment(self, name: str) -> dict[str, str]:
        """The service's environment: the image's, the file's, and what the file passes on from .env."""
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        base = {"PATH": programs, "HOME": str(self.folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        base["TORCHINDUCTOR_VEC_ISA_OK"] = os.environ["TORCHINDUCTOR_VEC_ISA_OK"]
        ours = self.services[name].get("image", "").startswith("kernel-workbench")
        if ours:
            volume = self.services[name]["volumes"][0].split(":")[0]
            base |= image_environment() | {"WORKBENCH_DATA": f"{self.folder}/volumes/{volume}"}
        told = self.services[name].get("environment", {})
        passed = {key: self.env_file.get(key, "") if value is None else value for key, value in told.items()}
        return base | {key: self._here([value])[0] for key, value in passed.items() if value != ""}

    def client(self, **options: Any) -> httpx.Client:
        """A browser that trusts the certificate and comes to the front."""
        return httpx.Client(base_url=self.env_file["PUBLIC_URL"], verify=self.trust(), timeout=120, **options)

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "tls" / "fullchain.pem"))

    def logs(self) -> str:
        """The ends of the logs, for a failed test's message."""
        ends = [f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in self.folder.glob("*.log")]
        return "\n".join(ends)

    def _command(self, name: str) -> list[str]:
        if name == "front":
            return self._front()
        words = self._here(self.services[name].get("command") or image_command())
        if name == "redis":
            where = self.folder / "redis"
            where.mkdir(exist_ok=True)
            words += ["--port", str(self.ports["redis"]), "--bind", "127.0.0.1", "--dir", str(where)]
        return [str(shutil.which(words[0], path=self.environment(name)["PATH"])), *words[1:]]

    def _front(self) -> list[str]:
        (self.folder / "front").mkdir(exist_ok=True)
        (self.folder / "nginx.conf").write_text(self._here([(ROOT / "deploy" / "nginx.conf").read_text()])[0])
        return [str(nginx_bin()), "-c", f"{self.folder}/nginx.conf", "-p", str(self.folder), "-g", "daemon off;"]

    def _here(self, words: Sequence[str]) -> list[str]:
        return [self._replaced(filled(word, self.env_file)) for word in words]

    def _replaced(self, text: str) -> str:
        for there, here in self.here.items():
            text = text.replace(there, here)
        return text

    def _make_certificate(self) -> None:
        tls = self.folder / "tls"
        tls.mkdir()
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        files = ["-keyout", str(tls / "privkey.pem"), "-out", str(tls / "fullchain.pem")]
        subprocess.run([*command, "-addext", names, *files], check=True, capture_output=True)
