"""The container of the server alone: its files exist, its command is one that the server takes, and it is confined."""

import argparse
import itertools
import json
import shlex
import tomllib
from typing import Any

import jsonschema
import pytest
import yaml

from kernels.cli.serve import KEY_VARIABLE, serve_arguments
from tests.deployment.compose import ROOT, SCHEMA, filled

DOCKERFILE = (ROOT / "deploy" / "serve.Dockerfile").read_text()
LINES = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def words(instruction: str) -> list[list[str]]:
    """What stands behind each such instruction of the Dockerfile."""
    result = [line.removeprefix(instruction).strip() for line in LINES if line.startswith(f"{instruction} ")]
    return [json.loads(item) if item.startswith("[") else shlex.split(item) for item in result]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "serve.yml").read_text())
    return result


def test_it_copies_what_exists_and_nothing_of_the_workbench_and_drops_root() -> None:
    sources = [source for copied in words("COPY") for source in copied[:-1]]
    for flavour in ("cpu", "gpu"):
        assert all((ROOT / source.replace("${FLAVOUR}", flavour)).exists() for source in sources)
    assert "kernels" in sources
    assert not {"workbench", "workers", "templates"} & set(sources)
    assert words("USER")[-1] == ["serve"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = " ".join([*project["dependencies"], *project["optional-dependencies"]["serve"]])
    assert not {"django", "celery", "httpx"} & set(named.replace("[", " ").lower().split())
    assert "extras=serve,gpu" in DOCKERFILE
    assert '".[$extras]"' in DOCKERFILE


def options(*args: str) -> argparse.Namespace:
    """What the server makes of the image's entry point and these words."""
    parser = argparse.ArgumentParser()
    serve_arguments(parser)
    entry = words("ENTRYPOINT")[0]
    assert entry[:4] == ["python", "-m", "kernels", "serve"]
    return parser.parse_args([*entry[4:], *args])


def test_the_image_and_its_services_serve_the_model_by_its_name_with_a_plan_if_there_is_one(
    compose: dict[str, Any],
) -> None:
    result = options(*words("CMD")[0])
    assert (result.model, result.plan, result.host, result.port) == ("/model", None, "0.0.0.0", 8080)
    cases: list[tuple[dict[str, str], str, str | None]] = [({}, "model", None)]
    cases.append(({"SERVE_NAME": "Ann's model"}, "Ann's model", None))
    cases.append(({"SERVE_NAME": "llama", "PLAN": "/plans/one.json"}, "llama", "/plan.json"))
    for service, (given, name, plan) in itertools.product(compose["services"].values(), cases):
        result = options(*shlex.split(filled(service["command"], given)))
        assert (result.model, result.name, result.plan and str(result.plan)) == ("/model", name, plan)
        mounts = dict(filled(item, {"MODEL": "/m"} | given).split(":")[:2][::-1] for item in service["volumes"])
        assert (mounts["/model"], mounts["/plan.json"]) == ("/m", given.get("PLAN", "/dev/null"))


def test_the_services_are_valid_confined_and_listen_on_this_host_alone(compose: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(compose)
    for service in compose["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"]
        assert KEY_VARIABLE in service["environment"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert "/health" in service["healthcheck"]["test"][-1]
        assert (ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
