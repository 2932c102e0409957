"""The compose file and what it names: valid by the specification's schema, and every name in it exists."""

import importlib.metadata
import importlib.util
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.pin_hashes import PYTHON, pins
from tests.deployment.compose import ROOT, SCHEMA
from workbench.embedded.broker import USERS, user_rules

PROCESSES = {"front", "web", "worker-api", "ledger", "intake", "beat", "notifier", "gpu-worker"}
PROCESSES |= {"postgres", "redis"}


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that is there twice, as Compose does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice: {sorted(key for key in keys if keys.count(key) > 1)}"
        return super().construct_mapping(node, deep)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.load((ROOT / "docker-compose.yml").read_text(), StrictLoader)


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return compose["services"]


def test_it_follows_the_compose_specification_and_every_process_is_there_with_a_health_check(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(compose)
    assert services.keys() >= PROCESSES
    assert all("healthcheck" in services[name] for name in PROCESSES)
    for name, service in services.items():
        for other, wait in service.get("depends_on", {}).items():
            assert other in services, f"{name} waits for {other}"
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[other]


def test_volumes_and_networks_are_declared_and_commands_name_what_exists(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        sources = {volume.split(":")[0] for volume in service.get("volumes", [])}
        files = {source for source in sources if source.startswith("./")}
        assert sources - files <= compose["volumes"].keys(), name
        assert all((ROOT / file).exists() for file in files), name
        assert set(service["networks"]) <= compose["networks"].keys(), name
        command = service.get("command", [])
        if not service.get("image", "").startswith("kernel-workbench") or not command:
            continue
        assert shutil.which(command[0], path=Path(sys.executable).parent), name
        if command[0] == "celery":
            assert importlib.util.find_spec(command[command.index("-A") + 1]), name
        if command[0] == "python":
            assert (ROOT / command[1]).exists(), name


def test_the_gpu_worker_reaches_no_database_and_holds_no_secret_of_the_web(services: dict[str, Any]) -> None:
    worker = services["gpu-worker"]
    told = {name for name, value in worker["environment"].items() if value is not None}
    assert told == {"WORKER_TOKEN", "REDIS_URL", "WORKER_API_URL"}
    assert not set(worker["networks"]) & set(services["postgres"]["networks"])
    assert worker["command"][worker["command"].index("-c") + 1] == "1"


def test_every_setting_reaches_the_web_processes(services: dict[str, Any]) -> None:
    read = set(re.findall(r"\benv(?:\.\w+)?\(\s*\"([A-Z_]+)\"", (ROOT / "workbench" / "settings.py").read_text()))
    given = {"WORKBENCH_DATA", "STATIC_ROOT", "DEBUG"}  # by the image, or never on a server
    for name in ("web", "worker-api", "ledger", "intake", "notifier", "beat", "migrate"):
        assert services[name]["environment"].keys() >= read - given, name


def test_only_the_front_and_the_notifier_reach_outside_and_workers_where_it_is_added(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["front"]
    for name, network in compose["networks"].items():
        inside = [service for service in services if name in services[service]["networks"]]
        assert (network or {}).get("internal") or inside == ["front", "notifier"]
    added = yaml.load((ROOT / "deploy" / "worker-outside.yml").read_text(), StrictLoader)["services"]
    assert {name for name in services if name.endswith("-worker")} == added.keys()
    for name, service in added.items():
        assert service == {"networks": [*services[name]["networks"], "outside"]}
        assert "outside" in compose["networks"]


def test_every_service_is_confined(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["pids_limit"] > 0, name
        assert service["mem_limit"], name


def test_redis_keeps_jobs_and_has_the_users_of_the_embedded_one_and_no_other(services: dict[str, Any]) -> None:
    words = services["redis"]["command"]
    passwords = {role: f"${{REDIS_{role.upper()}_PASSWORD:?set it in .env}}" for role in USERS}
    expected = ["user default off", *user_rules(passwords)]
    assert [f"--{rule}" for rule in expected] == [word for word in words if word.startswith("--user")]
    assert words[words.index("--appendonly") + 1] == "yes"
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"

    def passwords(name: str) -> set[str]:
        return set(re.findall(r"REDIS_\w+_PASSWORD", json.dumps(services[name].get("environment", {}))))

    assert passwords("gpu-worker") == passwords("cpu-worker") == {"REDIS_GPU_PASSWORD"}
    assert passwords("web") == {"REDIS_LEDGER_PASSWORD", "REDIS_CACHE_PASSWORD"}


def test_every_variable_is_explained_once_in_the_example_and_git_takes_no_secrets() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+)", text)) | set(re.findall(r"^    ([A-Z_]+):$", text, re.MULTILINE))
    explained = re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert sorted(used) == sorted(explained)
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_dockerfile_copies_what_exists_installs_by_hashes_and_drops_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert any(line.startswith(f"FROM python:{PYTHON[0]}.{PYTHON[1]}-slim-bookworm") for line in lines)
    for line in lines:
        if line.startswith("COPY "):
            for source in line.split()[1:-1]:
                for flavour in ("cpu", "gpu"):
                    assert (ROOT / source.replace("${FLAVOUR}", flavour)).exists(), source
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1] != "root"
    install = "\n".join(lines)
    assert "pip install --no-deps --require-hashes -r constraints/hashes-${FLAVOUR}.txt" in install
    assert install.count("pip install") == 3, "torch's CPU build, the pins, and ourselves"


@pytest.mark.parametrize("flavour", ["cpu", "gpu"])
def test_constraints_pin_every_dependency_of_the_project_and_hash_every_pin(flavour: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["workbench"], *extras["serve"], *extras["dev"]]
    wanted += extras["gpu"] if flavour == "gpu" else []
    lines = (ROOT / "constraints" / f"{flavour}.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line and line[0] != "#"}
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines if line and line[0] != "#")
    assert {re.split(r"[\[;= ]", name)[0].lower() for name in wanted} <= pinned
    hashed = (ROOT / "constraints" / f"hashes-{flavour}.txt").read_text().splitlines()[1:]
    assert all(re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in hashed)
    assert [line.split()[0] for line in hashed] == pins(flavour), "run make pin-hashes"


def _needed(names: list[str]) -> set[str]:
    """The installed distributions that these requirements lead to, by their normalised names."""
    seen, todo = set[tuple[str, tuple[str, ...]]](), [Requirement(name) for name in names]
    while todo:
        wanted = todo.pop()
        key = canonicalize_name(wanted.name), tuple(sorted(wanted.extras))
        if key in seen or not list(importlib.metadata.Distribution.discover(name=wanted.name)):
            continue
        seen.add(key)
        for text in importlib.metadata.requires(wanted.name) or []:
            needs = Requirement(text)
            if needs.marker is None or any(needs.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                todo.append(needs)
    return {name for name, _ in seen}


def test_the_images_leave_out_the_test_tools_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = (ROOT / "constraints" / "test-tools.txt").read_text().splitlines()[1:]
    left_out = {canonicalize_name(line.strip("^=")) for line in lines}
    assert not left_out & _needed([*project["dependencies"], *extras["workbench"], *extras["serve"], *extras["gpu"]])
    tools = {canonicalize_name(Requirement(name).name) for name in extras["dev"]}
    on_a_gpu = {"nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "triton"}
    assert tools - on_a_gpu <= left_out
