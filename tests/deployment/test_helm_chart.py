"""The chart of deploy/helm: valid by Kubernetes' and KEDA's schemas, and it says what docker-compose.yml says."""

import json
import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kernels.cli.serve import KEY_VARIABLE
from kernels.server.http.client import EngineClient
from kernels.server.http.metrics import Metrics
from tests.deployment.compose import ROOT
from tests.deployment.helm import CHART, NEEDED, RELEASE, SECRETS, Helm, Refused, containers, environment, pods
from tests.deployment.test_serve_image import options
from workbench.embedded.broker import USERS, user_rules
from workers.documents.broker import gpu_queue

KUBERNETES = "1.33"
KEDA = ("ScaledJob", "ScaledObject", "TriggerAuthentication")
SERVER = {
    "name": "llama", "image": "serve:gpu", "model": {"persistentVolumeClaim": {"claimName": "llama", "readOnly": True}},
    "planConfigMap": "llama-plan", "apiKeySecret": "llama-key", "gpus": 1, "memory": "64Gi",
    "replicas": {"min": 1, "max": 4}, "requestsPerReplica": 48, "clients": [{"podSelector": {}}],
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}, "tolerations": [],
}  # fmt: skip
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
EVERYTHING = {
    "settings": dict.fromkeys(DEFAULTS["settings"], "7"),
    "workerSettings": dict.fromkeys(DEFAULTS["workerSettings"], "7"),
    "secrets": {**dict.fromkeys(SECRETS, "a"), "METRICS_TOKEN": "a", "EMAIL_PASSWORD": "a"},
    "servers": [SERVER],
    "prometheusUrl": "http://prometheus.monitoring:9090",
    "networkPolicy": {"prometheus": [PROMETHEUS]},
    "imagePullSecrets": [{"name": "registry"}],
}
ELSEWHERE = {
    "postgres": {"url": "postgres://workbench:$(POSTGRES_PASSWORD)@db.example:5432/workbench", "egress": "10.1.0.0/16"},
    "redis": {"address": "redis.example:6379", "egress": "10.2.0.0/16"},
    "secrets": {"existing": "ours"},
    "data": {"existingClaim": "models"},
}
OF_COMPOSE = {"gpu-worker": "gpu-h200"}
"""The components that have another name than their service."""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    del services["cpu-worker"]
    return {OF_COMPOSE.get(name, name): service for name, service in services.items()}


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[dict[str, Any]]:
    return helm.objects(EVERYTHING)


@pytest.fixture(scope="module")
def templates(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return pods(objects)


def _container(templates: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    (container,) = templates[name]["spec"]["containers"]
    return dict(container)


def _check(each: dict[str, Any]) -> None:
    """Raises ValueError or a ValidationError where the object does not follow its schema."""
    from cloudcoil.models.keda import v1alpha1  # takes a second, which each of xdist's workers would wait for

    if each["kind"] not in KEDA:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        return
    if each["kind"] == "ScaledJob":
        spec = each["spec"]["jobTargetRef"]
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": each["metadata"], "spec": spec}
        kubernetes_validate.validate(job, KUBERNETES, strict=True)
        some = {"template": {"spec": {"containers": [{"name": "worker"}]}}}  # the model refuses a quantity such as "1"
        each = {**each, "spec": {**each["spec"], "jobTargetRef": some}}
    model = getattr(v1alpha1, each["kind"])
    if model.model_validate(each).model_dump(mode="json", by_alias=True, exclude_unset=True) != each:
        raise ValueError("a field that KEDA does not know")  # its models leave those out


@pytest.mark.parametrize("values", [{}, EVERYTHING, ELSEWHERE], ids=["least", "everything", "elsewhere"])
def test_every_object_follows_its_schema_and_is_there_once(helm: Helm, values: dict[str, Any]) -> None:
    result = helm.objects(values)
    for item in result:
        _check(item)
    names = [(item["kind"], item["metadata"]["name"]) for item in result]
    assert len(names) == len(set(names))
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.run("lint", "--strict", str(CHART), values=values)


def test_every_process_of_compose_is_there_with_its_command_and_variables(
    compose: dict[str, Any], templates: dict[str, dict[str, Any]]
) -> None:
    assert templates.keys() == compose.keys() | {"serve-llama"}
    for name, service in compose.items():
        words = service.get("command")
        own = _container(templates, name).get("command")
        if name == "gpu-h200":
            words = [word.replace("${GPU_CLASS:-h200}", "h200").replace("gpu-0@", "gpu-h200@") for word in words]
            own, more = own[: len(words)], own[len(words) :]
            assert more == ["--one-run", "300"]
        if name not in ("front", "redis"):
            assert own == words, name
        if name != "gpu-h200":
            assert _container(templates, name)["image"] == service["image"].partition("@")[0], name
        secrets = dict.fromkeys((*SECRETS, "METRICS_TOKEN", "EMAIL_PASSWORD"), "a")
        for container in containers(templates[name]):
            if "env" in container:
                given = environment(container, secrets)
                assert given.keys() >= service["environment"].keys(), name


def test_urls_and_passwords_are_those_of_compose(compose: dict[str, Any], templates: dict[str, dict[str, Any]]) -> None:
    secrets = {name: f"a-{name}" for name in SECRETS}
    for name in ("web", "notifier", "migrate", "gpu-h200"):
        given = environment(_container(templates, name), secrets)
        for variable, value in compose[name]["environment"].items():
            if value and value.startswith(("postgres:", "redis:", "http:")):
                there = re.sub(r"\$\{([A-Z_]+)[^}]*\}", r"a-\1", value)
                there = re.sub(r"(?<=[@/])(postgres|redis|worker-api):", rf"{RELEASE}-\1:", there)
                assert given[variable] == there
    assert "a-REDIS_LEDGER_PASSWORD" not in json.dumps(given)
    assert not {"SECRET_KEY", "DATABASE_URL"} & given.keys(), "a GPU worker's"


def test_a_secret_that_is_missing_is_named(helm: Helm) -> None:
    for name in SECRETS:
        left = {key: value for key, value in NEEDED["secrets"].items() if key != name}  # type: ignore[attr-defined]
        with pytest.raises(Refused, match=rf"secrets\.{name}, or secrets\.existing"):
            helm.objects({"secrets": left})
    with pytest.raises(Refused, match="publicUrl"):
        helm.objects({"publicUrl": ""})
    example = re.findall(r"^([A-Z_]+)=$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    assert {*example, "REDIS_KEDA_PASSWORD"} == set(SECRETS)


def test_servers_and_secrets_elsewhere_take_the_place_of_our_own(helm: Helm) -> None:
    result = helm.objects(ELSEWHERE)
    assert not {"StatefulSet", "Secret", "PersistentVolumeClaim"} & {item["kind"] for item in result}
    given = environment(_container(pods(result), "web"), {name: f"a-{name}" for name in SECRETS})
    assert given["DATABASE_URL"] == "postgres://workbench:a-POSTGRES_PASSWORD@db.example:5432/workbench"
    assert given["REDIS_URL"] == "redis://ledger:a-REDIS_LEDGER_PASSWORD@redis.example:6379/1"
    (job,) = [item for item in result if item["kind"] == "ScaledJob"]
    assert job["spec"]["triggers"][0]["metadata"]["address"] == "redis.example:6379"
    assert '"name": "ours"' in json.dumps(result)


def test_redis_has_the_users_of_compose_and_kedas(templates: dict[str, dict[str, Any]]) -> None:
    rules = [f"--{rule}" for rule in user_rules({role: f"$(REDIS_{role.upper()}_PASSWORD)" for role in USERS})]
    words = _container(templates, "redis")["command"]
    users = [word for word in words if word.startswith("--user")]
    assert users[:-1] == ["--user default off", *rules]
    assert users[-1].startswith("--user keda on >$(REDIS_KEDA_PASSWORD) ~gpu.* resetchannels ")
    assert words[-4:] == ["--appendonly", "yes", "--maxmemory-policy", "noeviction"]


def test_every_container_is_confined(templates: dict[str, dict[str, Any]]) -> None:
    for name, template in templates.items():
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not [item for item in spec["volumes"] if "hostPath" in item]
        for container in containers(template):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["readOnlyRootFilesystem"] is True, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


def test_a_gpu_worker_may_be_root_with_the_capabilities_of_a_user_for_each_organisation(helm: Helm) -> None:
    text = re.search(r"^#   (\{runAsUser: 0.*\})$", (CHART / "values.yaml").read_text(), re.MULTILINE)
    assert text
    result = helm.objects({"gpuWorkersSecurity": yaml.safe_load(text[1])})
    context = _container(pods(result), "gpu-h200")["securityContext"]
    needed = ["CHOWN", "DAC_READ_SEARCH", "KILL", "SETGID", "SETUID"]  # workers/confinement/privileges.py
    assert context["capabilities"] == {"drop": ["ALL"], "add": needed}
    assert (context["runAsUser"], context["allowPrivilegeEscalation"]) == (0, False)


def test_health_checks_are_those_of_compose(compose: dict[str, Any], templates: dict[str, dict[str, Any]]) -> None:
    for name, service in compose.items():
        container = _container(templates, name)
        if "healthcheck" not in service or name == "gpu-h200":
            assert "livenessProbe" not in container, "a probe could end a measurement"
            continue
        test, probe = service["healthcheck"]["test"], container["readinessProbe"]
        assert "livenessProbe" in container
        if "httpGet" in probe:
            port, path = probe["httpGet"]["port"], probe["httpGet"]["path"]
            assert f"127.0.0.1:{port}{path}" in " ".join(test)
        else:
            words = ["sh", "-c", test[1].replace("$$", "$")] if test[0] == "CMD-SHELL" else test[1:]
            same = [" ".join("".join(value).split()) for value in (words, probe["exec"]["command"])]
            assert same[0] == same[1], name


def test_web_processes_share_files_in_memory_and_keep_data_in_one_volume(templates: dict[str, dict[str, Any]]) -> None:
    for name in ("web", "worker-api", "ledger", "intake", "notifier", "beat", "migrate"):
        volumes = {template["name"]: template for template in templates[name]["spec"]["volumes"]}
        mounts = {item["mountPath"]: volumes[item["name"]] for item in _container(templates, name)["volumeMounts"]}
        assert mounts["/run"]["emptyDir"]["medium"] == "Memory"
        assert mounts["/data"]["persistentVolumeClaim"] == {"claimName": f"{RELEASE}-data"}


def test_a_job_is_started_for_each_message_and_never_ended_for_another(objects: list[dict[str, Any]]) -> None:
    (scaled,) = [item["spec"] for item in objects if item["kind"] == "ScaledJob"]
    (trigger,) = scaled["triggers"]
    assert trigger["type"] == "redis"
    assert (trigger["metadata"]["listName"], trigger["metadata"]["listLength"]) == (gpu_queue("h200"), "1")
    assert scaled["scalingStrategy"] == {"strategy": "accurate", "pendingPodConditions": ["Ready"]}
    assert scaled["rollout"] == {"strategy": "gradual"}
    job = scaled["jobTargetRef"]
    assert job["backoffLimit"] == 0
    assert "activeDeadlineSeconds" not in job
    template = job["template"]
    assert template["spec"]["restartPolicy"] == "Never"
    assert template["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_front_serves_the_configuration_of_compose(objects: list[dict[str, Any]]) -> None:
    (text,) = [item["data"]["nginx.conf"] for item in objects if item["kind"] == "ConfigMap"]
    ours, composed = text.splitlines(), (ROOT / "deploy" / "nginx.conf").read_text().splitlines()
    changed = [
        (old.strip(), new.strip()) for old, new in zip(composed, ours, strict=True) if old.strip() != new.strip()
    ]
    assert changed == [
        ("resolver 127.0.0.11 valid=10s;", ""),
        ("set $web web:8000;", ""),
        ("proxy_pass http://$web;", f"proxy_pass http://{RELEASE}-web:8000;"),
    ]


def test_a_plans_server_takes_its_words_and_its_key_and_ends_its_open_requests(
    helm: Helm, templates: dict[str, dict[str, Any]]
) -> None:
    container = _container(templates, "serve-llama")
    flags = options(*container["args"])
    assert (flags.model, flags.name, str(flags.plan), flags.port) == ("/model", "llama", "/plan/plan.json", 8080)
    assert {item["name"] for item in container["env"]} == {KEY_VARIABLE}
    mounts = {item["mountPath"]: item.get("readOnly", False) for item in container["volumeMounts"]}
    assert mounts == {"/model": True, "/plan": True, "/cache": False, "/dev/shm": False, "/tmp": False}
    paths = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")]
    assert paths == ["/health", "/health", "/livez"]
    assert templates["serve-llama"]["spec"]["terminationGracePeriodSeconds"] > flags.drain_seconds
    plain = {key: value for key, value in SERVER.items() if key != "planConfigMap"}
    rendered = helm.objects({"servers": [plain]})
    assert options(*_container(pods(rendered), "serve-llama")["args"]).plan is None
    assert not [item for item in rendered if item["kind"] == "ScaledObject"], "there is no Prometheus"
    name = ("Deployment", f"{RELEASE}-serve-llama")
    server = [item for item in rendered if (item["kind"], item["metadata"]["name"]) == name]
    assert [item["spec"]["replicas"] for item in server] == [1]


def test_a_plans_server_is_scaled_by_figures_that_it_exports(objects: list[dict[str, Any]]) -> None:
    (scaled,) = [item["spec"] for item in objects if item["kind"] == "ScaledObject"]
    assert scaled["scaleTargetRef"] == {"name": f"{RELEASE}-serve-llama"}
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 4)
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["threshold"] == "48"
    names = set(re.findall(r"serve_\w+", trigger["metadata"]["query"]))
    assert names == {"serve_running_requests", "serve_waiting_requests"}
    exported = Metrics(EngineClient(lambda _: None), "llama").text().decode()
    assert names <= set(re.findall(r"^# TYPE (\w+) gauge$", exported, re.MULTILINE))
    assert re.findall(r'pod=~"([^"]*)"', trigger["metadata"]["query"]) == [f"{RELEASE}-serve-llama-.*"] * 2
