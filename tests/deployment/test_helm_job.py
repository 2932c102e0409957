"""The command of the chart's GPU job as a process, against a real Redis and the site: a job takes one run and ends."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from tests.deployment.helm import RELEASE, SECRETS, Helm, containers, environment, pods
from tests.sample_results import workload
from tests.waiting import wait_for
from tests.workers.pipeline.stack import REDIS_PASSWORDS, ROOT, Stack

CPU = {"class": "cpu", "gpus": 0, "maxJobs": 2, "cpu": 1, "memory": "4Gi", "cache": {"emptyDir": {}}}
TINY_STAGES = ("WORKBENCH_STAGE_PACKAGE", "WORKBENCH_STAGE_TEST_DIR")
LENGTH = "local kind = redis.call('type', KEYS[1]).ok; return redis.call('llen', KEYS[1])"
"""How KEDA asks: by a script, which finds out what the key is."""


class Jobs:
    """Starts pods of the chart's job as processes beside the stack."""

    def __init__(self, stack: Stack, objects: list[dict[str, Any]], folder: Path) -> None:
        self._stack, self._folder, self._processes = stack, folder, list[subprocess.Popen[bytes]]()
        self._secrets = {name: f"a-{name}" for name in SECRETS} | {
            "REDIS_GPU_PASSWORD": REDIS_PASSWORDS["gpu"],
            "WORKER_TOKEN": stack.env["WORKER_TOKEN"],
        }
        (self.container,) = containers(pods(objects)["gpu-cpu"])

    def start(self, idle: str = "") -> tuple[subprocess.Popen[bytes], Path]:
        """The process, and its folder /tmp. `idle` takes the place of how long it waits for a message."""
        number = len(self._processes)
        tmp, data = self._folder / f"tmp-{number}", self._folder / f"data-{number}"
        tmp.mkdir()
        own = {f"{RELEASE}-redis:6379": f"127.0.0.1:{self._stack.redis_port}"}
        own[f"{RELEASE}-worker-api:8001"] = f"127.0.0.1:{self._stack.worker_api_port}"
        given = environment(self.container, self._secrets)
        for there, here in own.items():
            given = {name: value.replace(there, here) for name, value in given.items()}
        tests_own = {"WORKBENCH_DATA": str(data), "TMPDIR": str(tmp)}
        for name in (*TINY_STAGES, "TORCHINDUCTOR_VEC_ISA_OK", "HEARTBEAT_SECONDS", "PATH", "HOME"):
            tests_own[name] = self._stack.worker_env[name]
        words = list(self.container["command"])
        words[-1] = idle or words[-1]
        command = [sys.executable, "-m", *words]
        with (self._stack.directory / f"job-{number}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env={**given, **tests_own}, stdout=log, stderr=log)
        self._processes.append(process)
        return process, tmp

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The site and Redis, and no GPU worker. No message is sent again between its receipt and the claim."""
    stack = Stack(tmp_path_factory.mktemp("stack"), workers=(), settings={"REPUBLISH_SECONDS": "3600"})
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


@pytest.fixture
def jobs(stack: Stack, helm: Helm, tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(stack, helm.objects({"gpuWorkers": [CPU]}), tmp_path)
    yield jobs
    jobs.stop()


def _submit(stack: Stack, request: str) -> str:
    """A run of the class cpu: while no worker lives, a run waits for the first class that it allows."""
    constraints = workload().constraints.model_copy(update={"gpu_classes": ["cpu"]})
    return stack.submit(request, constraints=constraints.model_dump(mode="json"))


def _waiting(stack: Stack) -> int:
    return int(redis.Redis(port=stack.redis_port, socket_timeout=60).llen("gpu.cpu"))


def _is_ready(container: dict[str, Any], tmp: Path) -> bool:
    words = [word.replace("/tmp", str(tmp)) for word in container["readinessProbe"]["exec"]["command"]]
    return subprocess.run(words).returncode == 0


def _ended(stack: Stack, process: subprocess.Popen[bytes]) -> int:
    wait_for(lambda: process.poll() is not None, 120, "the end of the job", stack.logs)
    return process.returncode


def test_a_job_that_is_told_to_end_hands_its_run_to_the_next_which_takes_it_to_its_end_and_leaves_another(
    stack: Stack, jobs: Jobs
) -> None:
    first, second = _submit(stack, "pause baseline"), _submit(stack, "nothing")
    stack.until(lambda: _waiting(stack) == 2, "both messages")
    job, tmp = jobs.start()
    stack.stage_told(first)
    assert _is_ready(jobs.container, tmp)
    assert _waiting(stack) == 1
    job.terminate()
    assert _ended(stack, job) == 0
    assert stack.run(first)["state"] == "queued"
    stack.go(first)
    job, _ = jobs.start()
    assert stack.wait(first)["state"] == "done", stack.story(first)
    assert _ended(stack, job) == 0
    assert stack.run(second)["state"] == "queued"
    assert stack.events(first, "retried") == stack.events(second, "claimed") == []
    assert _waiting(stack) == 1


def test_a_job_without_a_message_ends_by_itself_and_was_never_ready(stack: Stack, jobs: Jobs) -> None:
    redis.Redis(port=stack.redis_port).delete("gpu.cpu")
    job, tmp = jobs.start(idle="1")
    assert _ended(stack, job) == 0
    assert not _is_ready(jobs.container, tmp)


def test_kedas_user_reads_how_long_a_queue_is_and_no_more(stack: Stack, helm: Helm) -> None:
    (container,) = containers(pods(helm.objects())["redis"])
    (rule,) = [word for word in container["command"] if word.startswith("--user keda ")]
    words = rule.replace("$(REDIS_KEDA_PASSWORD)", "a-password-of-keda").split()[1:]
    redis.Redis(port=stack.redis_port).execute_command("ACL", "SETUSER", *words)
    keda = redis.Redis(port=stack.redis_port, username="keda", password="a-password-of-keda", socket_timeout=60)
    redis.Redis(port=stack.redis_port).rpush("gpu.l40s", "a", "b")
    assert keda.eval(LENGTH, 1, "gpu.l40s") == 2
    for script, key in (("return redis.call('rpop', KEYS[1])", "gpu.l40s"), (LENGTH, "unacked"), (LENGTH, "ledger")):
        with pytest.raises(ResponseError):
            keda.eval(script, 1, key)
