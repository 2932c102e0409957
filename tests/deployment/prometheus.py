"""Debian's Prometheus with deploy/prometheus.yml, on the processes of the compose file."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from kernels.load.server_process import reserve_port
from tests.deployment.compose import ROOT, Compose

DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"


def panels() -> dict[str, list[str]]:
    """The queries of each panel of the dashboard, by its title."""
    result = json.loads(DASHBOARD.read_text())["panels"]
    return {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in result}


class Prometheus:
    """A running server, which scrapes every second."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log

    def ask(self, query: str) -> list[float]:
        """The numbers that a query finds now; NaN is none. Raises AssertionError for a query it cannot read."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=120).json()
        assert answer["status"] == "success", f"{query}: {answer}"
        values = [float(sample["value"][1]) for sample in answer["data"]["result"]]
        return [value for value in values if value == value]

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes, with the health of each; empty before it listens."""
        try:
            answer = httpx.get(f"{self.url}/api/v1/targets", timeout=120)
        except httpx.TransportError:
            return []
        return list(answer.json()["data"]["activeTargets"]) if answer.status_code == 200 else []


@contextlib.contextmanager
def prometheus(compose: Compose, folder: Path, token: str) -> Iterator[Prometheus]:
    """The server in `folder`, until the block ends."""
    text = (ROOT / "deploy" / "prometheus.yml").read_text().replace("15s", "1s")
    for name, port in (("web:8000", "web"), ("worker-api:8001", "worker-api")):
        assert name in text
        text = text.replace(name, f"127.0.0.1:{compose.ports[port]}")
    (folder / "prometheus.yml").write_text(text)
    (folder / "metrics_token").write_text(token)
    port = reserve_port()
    options = ["--config.file", "prometheus.yml", "--storage.tsdb.path", "data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *options, "--web.listen-address", f"127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log
        )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}", folder / "log")
    finally:
        process.kill()
        process.wait()
