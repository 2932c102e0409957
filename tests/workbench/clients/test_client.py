"""The generated client, the examples beside it against the live server, and the document that it is made from."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from scripts import make_client
from tests.programs import python
from workbench.runs.models import Run

pytestmark = pytest.mark.django_db(transaction=True)
FOLDER = Path(__file__).resolve().parents[3] / "clients" / "python"
EXAMPLES = FOLDER / "examples"
README = (FOLDER / "README.md").read_text("utf-8")


def _workload(**changes: Any) -> Any:
    from kernel_workbench_client.models import Objective, Traffic, Workload

    promise = Objective(metric="ttf_n", n=64, limit=100)
    return Workload(model="tiny-llama", traffic=Traffic(prompt_tokens=16), objectives=[promise], **changes)


def test_it_submits_follows_and_reads_the_result_or_the_refusal(client, end_runs):
    from kernel_workbench_client.api.runs import read_results, read_run, start_run
    from kernel_workbench_client.api.workloads import submit_workload
    from kernel_workbench_client.models import NewRun

    workload = submit_workload.sync(client=client, body=_workload(name="By the client"))
    run = start_run.sync(client=client, body=NewRun(workload=workload.id))
    assert (run.state, run.workload_name) == ("queued", "By the client")
    assert "No worker" in run.waiting or run.place is not None
    end_runs("done", "met")
    assert read_run.sync(run.id, client=client).verdict == "met"
    result = read_results.sync(run.id, client=client)
    outcome = result.results.verify.outcomes[0]
    assert (outcome.objective.metric, outcome.objective.limit) == ("ttf_n", 100)
    assert outcome.after > 0
    from kernel_workbench_client.api.workloads import submit_workload
    from kernel_workbench_client.models import ProblemDocument

    refused = submit_workload.sync(client=client, body=_workload(duty_cycle=2.0))
    assert isinstance(refused, ProblemDocument)
    assert (refused.status, refused.errors[0].field) == (422, "duty_cycle")


PROGRAMS = pytest.mark.parametrize("program", ["gate.py", "gate.sh"])


@pytest.fixture
def gate(environment, capfd, monkeypatch):
    """`gate("gate.py", "workload.json", WORKBENCH_TOKEN=None)`: its exit code, output and errors."""
    monkeypatch.chdir(EXAMPLES)

    def run(program, file, **changes):
        known = {name: value for name, value in (environment | changes).items() if value is not None}
        if program == "gate.sh":
            done = subprocess.run(["bash", program, file], env=known, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr
        monkeypatch.setattr(sys, "argv", [program, str(file)])
        with patch.dict(os.environ, known, clear=True), pytest.raises(SystemExit) as ended:
            runpy.run_path(program, run_name="__main__")
        return ended.value.code, *capfd.readouterr()

    return run


@PROGRAMS
@pytest.mark.parametrize(("state", "verdict", "code"), [("done", "met", 0), ("done", "missed", 1), ("failed", "", 3)])
def test_a_gate_exits_with_the_verdict(gate, end_runs, program, state, verdict, code):
    end_runs(state, verdict)
    ended, out, errors = gate(program, "workload.json")
    assert ended == code, errors
    assert out.startswith(verdict or state)


@PROGRAMS
def test_a_gate_that_cannot_ask_is_no_missed_sla_and_says_what_is_wrong(gate, tmp_path, program):
    unknown = tmp_path / "workload.json"
    unknown.write_text('{"model": "no-such-model", "objectives": [{"metric": "ttft", "limit": 5}]}')
    for file, changes, code, words in (
        (unknown, {}, 2, "no-such-model"),
        ("workload.json", {"WORKBENCH_TOKEN": None}, 2, "usage: "),
        ("workload.json", {"WORKBENCH_URL": "nowhere://127.0.0.1"}, 3, "nowhere"),
    ):
        ended, _, errors = gate(program, file, **changes)
        assert (ended, words in errors) == (code, True), errors


@pytest.mark.parametrize("file", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_jobs_run_the_gate(file):
    job = yaml.safe_load((EXAMPLES / file).read_text("utf-8"))
    lines = job["latency"]["script"] if "latency" in job else [s.get("run") for s in job["jobs"]["sla"]["steps"]]
    program, *arguments = shlex.split(lines[-1])
    assert program == "python"
    assert all((EXAMPLES / name).is_file() for name in arguments)


def test_the_readme_does_what_it_says(environment):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    printed = python("-c", code, env=environment)
    assert str(Run.objects.get().id) in printed
    lines = re.findall(r"^curl .*$", README, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        root = FOLDER.parents[1]
        done = subprocess.run(["bash", "-c", f"{line} --fail-with-body"], cwd=root, env=environment, check=False)
        assert done.returncode == 0, line


def test_the_openapi_document_is_of_today_and_for_customers():
    assert make_client.DOCUMENT.read_text("utf-8") == make_client.document(), "run `make client`"
    paths = json.loads(make_client.document())["paths"]
    assert len(paths) > 20
    assert not [path for path in paths if "/worker" in path], "what workers call has a site of its own"
