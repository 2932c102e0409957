"""A plan's server in the chart: words that it takes, and scaling by figures that it exports."""

import re
from typing import Any

import pytest

from kernels.cli.serve import KEY_VARIABLE
from kernels.server.http.client import EngineClient
from kernels.server.http.metrics import Metrics
from tests.deployment.helm import RELEASE, Helm, pods
from tests.deployment.test_helm_chart import EVERYTHING, SERVER
from tests.deployment.test_serve_image import options


@pytest.fixture(scope="module")
def container(helm: Helm) -> dict[str, Any]:
    (found,) = pods(helm.objects(EVERYTHING))["serve-llama"]["spec"]["containers"]
    return dict(found)


def test_the_server_takes_its_words_and_its_key(container: dict[str, Any]) -> None:
    found = options(*container["args"])
    assert (found.model, found.name, str(found.plan), found.port) == ("/model", "llama", "/plan/plan.json", 8080)
    assert {each["name"] for each in container["env"]} == {KEY_VARIABLE}
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts == {"/model": True, "/plan": True, "/cache": False, "/dev/shm": False, "/tmp": False}
    assert [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")] == [
        "/health",
        "/health",
        "/livez",
    ]


def test_without_a_plan_the_model_is_served(helm: Helm) -> None:
    plain = {key: value for key, value in SERVER.items() if key != "planConfigMap"}
    (found,) = pods(helm.objects({"servers": [plain]}))["serve-llama"]["spec"]["containers"]
    assert options(*found["args"]).plan is None


def test_its_open_requests_have_time_to_end(helm: Helm, container: dict[str, Any]) -> None:
    grace = pods(helm.objects(EVERYTHING))["serve-llama"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > options(*container["args"]).drain_seconds


def test_it_is_scaled_by_figures_that_it_exports(helm: Helm) -> None:
    (scaled,) = [each["spec"] for each in helm.objects(EVERYTHING) if each["kind"] == "ScaledObject"]
    assert scaled["scaleTargetRef"] == {"name": f"{RELEASE}-serve-llama"}
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 4)
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["threshold"] == "48"
    names = set(re.findall(r"serve_\w+", trigger["metadata"]["query"]))
    assert names == {"serve_running_requests", "serve_waiting_requests"}
    exported = Metrics(EngineClient(lambda _: None), "llama").text().decode()
    assert names <= set(re.findall(r"^# TYPE (\w+) gauge$", exported, re.MULTILINE))
    assert re.findall(r'pod=~"([^"]*)"', trigger["metadata"]["query"]) == [f"{RELEASE}-serve-llama-.*"] * 2


def test_without_prometheus_there_is_the_least_number_of_replicas(helm: Helm) -> None:
    found = helm.objects({"servers": [SERVER]})
    assert not [each for each in found if each["kind"] == "ScaledObject"]
    server = [
        each for each in found if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"{RELEASE}-serve-llama")
    ]
    assert [each["spec"]["replicas"] for each in server] == [1]
