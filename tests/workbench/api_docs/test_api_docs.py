"""The pages about the REST API: every operation is there, and every example on them works."""

import itertools
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sample_runs
from django.contrib.staticfiles import finders

from tests import sample_bring_up
from tests.workbench.intake.conftest import MODEL_FILES, send, sha
from workbench.accounts import tokens
from workbench.api_docs import document
from workbench.intake.models import Workload
from workbench.intake.services.workloads import create_workload
from workbench.notifications.models import Webhook
from workbench.reports import services as reports
from workers.documents.workload import Workload as Document


def test_every_operation_is_on_the_page_of_its_part_and_what_a_page_names_is_there(client):
    overview = client.get("/api/v1/docs").content.decode()
    schemas = client.get("/api/v1/docs/schemas").content.decode()
    defined = set(re.findall(r'id="(\w+)"', schemas))
    pages = {part: client.get(f"/api/v1/docs/{part}").content.decode() for part in document.parts()}
    for part, operations in document.parts().items():
        for operation in operations:
            assert f'href="/api/v1/docs/{part}#{operation.name}"' in overview
            assert f'id="{operation.name}"' in pages[part]
            assert "/worker" not in operation.path, "workers have a document of their own"
    assert "heartbeat" not in schemas
    for page in (schemas, *pages.values()):
        assert set(re.findall(r"docs/schemas#(\w+)", page)) <= defined
    assert client.get("/api/v1/docs/no-such-part").status_code == 404
    icon = client.get("/favicon.ico")
    assert icon.status_code == 302
    assert finders.find(icon["Location"].removeprefix("/static/"))


@pytest.fixture
def variables(organisation, admin, api):
    """What the examples call `$RUN_ID` and the like, one of each kind, under ""; others by the operation's name."""
    done, kept, free, waits = (sample_runs.run(organisation, admin, state) for state in (*["done"] * 3, "queued"))
    webhook = Webhook.objects.create(organisation=organisation, url="https://x.test/", created_by=admin)
    caller = api(admin)
    shared = {
        "RUN_ID": str(sample_runs.in_processes(done).id),
        "KEPT_ID": str(sample_runs.in_processes(kept).id),
        "WORKLOAD_ID": _workload(organisation, admin, "tiny-llama"),
        "MODEL_ID": str(done.workload.model_id),
        "REPORT_ID": str(reports.freeze(done, admin).id),
        "UPLOAD_ID": _upload_without_config(caller),
        "TOKEN_ID": str(tokens.issue(organisation, admin, "old", "read")[0].id),
        "WEBHOOK_ID": str(webhook.id),
        "BRING_UP_ID": str(sample_bring_up.row(organisation, admin).id),
        "NUMBER": "0",
        "STAGE": "report",
        "NAME": "report.html",
    }
    unused = Workload.objects.get(id=_workload(organisation, admin, "smollm2-135m"))
    model = str(unused.model_id)
    unused.delete()
    late = sample_runs.run(organisation, admin)
    verified = late.stages.get(stage="verify")
    verified.result |= {"verdict": "not_enough_samples", "minutes_wanted": 7.5}
    verified.save()
    return {
        "": shared,
        "cancel_run": {"RUN_ID": str(waits.id)},
        "go_on": {"RUN_ID": str(late.id)},
        "delete_run": {"RUN_ID": str(free.id)},
        "delete_model": {"MODEL_ID": model},
        "delete_workload": {"WORKLOAD_ID": _workload(organisation, admin, "tiny-llama")},
        "delete_upload": {"UPLOAD_ID": _upload_without_config(caller)},
    }


def _workload(organisation: Any, user: Any, model: str) -> str:
    document = Document(model=model, objectives=[{"metric": "ttft", "limit": 100}])
    return str(create_workload(organisation, user, document).id)


def _upload_without_config(caller: Any) -> str:
    """An upload that lacks the bytes of its first file alone, which the example sends."""
    files = [{"path": path, "size": len(each), "sha256": sha(each)} for path, each in MODEL_FILES.items()]
    answer = caller.post("/api/v1/uploads", {"name": "tiny", "files": files})
    upload: str = answer.json()["id"]
    for number, content in list(enumerate(MODEL_FILES.values()))[1:]:
        assert send(caller, upload, number, content).status_code == 200
    return upload


class Examples:
    """Runs the examples against the live server."""

    def __init__(self, url: str, secret: str, variables: dict[str, dict[str, str]], folder: Path) -> None:
        self.server = {"WORKBENCH_URL": url, "WORKBENCH_TOKEN": secret}
        self.variables, self.folder = variables, folder
        (folder / "config.json").write_bytes(MODEL_FILES["config.json"])

    def _of(self, operation: Any) -> dict[str, str]:
        return self.variables[""] | self.variables.get(operation.name, {})

    def curl(self, operation: Any) -> int:
        """The status that the example with curl is answered with."""
        line = operation.curl.replace("curl -sS", "curl -sS -o answer -w '%{http_code}'", 1)
        command = ["bash", "-euc", re.sub(r"--output \S+", "", line)]
        asked = os.environ | self.server | self._of(operation)
        done = subprocess.run(command, cwd=self.folder, env=asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def python(self, operation: Any) -> int:
        """The status that the example in Python is answered with."""
        from kernel_workbench_client import AuthenticatedClient

        client = AuthenticatedClient(base_url=self.server["WORKBENCH_URL"], token=self.server["WORKBENCH_TOKEN"])
        given = {name.lower(): value for name, value in self._of(operation).items()}
        names: dict[str, Any] = {n: UUID(v) if n.endswith("_id") else v for n, v in given.items()}
        names |= {"client": client, "number": 0, "open": lambda name, mode: (self.folder / name).open(mode)}
        exec(operation.python, names)
        return int(names["answer"].status_code)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("client_folder")
@pytest.mark.parametrize("language", ["curl", "python"])
def test_every_example_works(live_server, organisation, admin, variables, tmp_path, settings, language):
    settings.API_REQUESTS_PER_MINUTE = 10_000
    secret = tokens.issue(organisation, admin, "examples", "write")[1]
    examples = Examples(live_server.url, secret, variables, tmp_path)
    order = sorted(itertools.chain(*document.parts().values()), key=lambda each: each.method == "DELETE")
    answered = {item.name: getattr(examples, language)(item) for item in order}
    assert {name: status for name, status in answered.items() if not 200 <= status < 300} == {}
