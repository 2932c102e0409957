"""What differs on PostgreSQL: changes of the audit log, text with NUL or too long, bytes of rows, locked tables."""

import json

from tests.debian import postgres_server
from tests.programs import python

SCRIPT = """
import django; django.setup()
import json, threading
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from tests import sample_runs
from workbench.accounts import services
from workbench.accounts.models import User
from workbench.api import quota
from workbench.api.models import IdempotentRequest
from workbench.audit.models import Entry
from workbench.storage import database

call_command("migrate", verbosity=0)
admin = User.objects.create(email="admin@voice.test")
voice = services.create_organisation("Voice", admin)
outcome = {"audit": []}
for statement in ("UPDATE audit_entry SET action = 'x'", "DELETE FROM audit_entry", "TRUNCATE audit_entry"):
    try:
        connection.cursor().execute(statement)
    except DatabaseError as error:
        outcome["audit"].append(str(error).splitlines()[0])
outcome["entry"] = str(Entry.objects.get())

run = sample_runs.run(voice, admin)
client = Client(raise_request_exception=False)
client.force_login(admin)
addresses = {
    "artifact": f"/runs/{run.id}/artifacts/%00/",
    "artifact of the API": f"/api/v1/runs/{run.id}/artifacts/verify/%00",
    "new workload": "/workloads/new/?model=%00",
}
outcome["status"] = {name: client.get(address).status_code for name, address in addresses.items()}
invited = client.post("/members/invite/", {"email": "x" * 250 + "@voice.test", "role": "engineer"})
outcome["status"]["invitation"] = invited.status_code

before, stage = quota.used_bytes(voice), run.stages.latest("position")
stage.partial = {"text": "é" * 50_000}
stage.save()
outcome["stage"] = quota.used_bytes(voice) - before
document = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 5}]}
client.post("/api/v1/workloads", document, content_type="application/json", headers={"Idempotency-Key": "k"})
row = IdempotentRequest.objects.get()
outcome["answer"] = row.row_bytes - len(row.body)

database.WAIT_SECONDS = 1
database.wait_less()
connection.close()
holds, ends = threading.Event(), threading.Event()
def hold():
    with transaction.atomic():
        connection.cursor().execute("LOCK TABLE intake_model IN ACCESS EXCLUSIVE MODE")
        holds.set()
        ends.wait()
threading.Thread(target=hold).start()
holds.wait()
answers = [client.get("/models/"), client.get("/api/v1/models")]
ends.set()
outcome["locked"] = [[each.status_code, each["Content-Type"], each["Retry-After"]] for each in answers]
print(json.dumps(outcome))
"""


def test_what_differs_on_postgresql(tmp_path):
    with postgres_server("a-password") as server:
        env = {"DATABASE_URL": server.url, "WORKBENCH_DATA": str(tmp_path), "ALLOWED_HOSTS": "testserver"}
        outcome = json.loads(python("-c", SCRIPT, env=env).splitlines()[-1])
    assert outcome["audit"] == ["audit entries are only added"] * 3
    assert outcome["entry"] == "admin@voice.test: organisation.created Voice"
    assert outcome["status"] == {"artifact": 404, "artifact of the API": 404, "new workload": 200, "invitation": 422}
    assert 100_000 <= outcome["stage"] < 101_000, "bytes, not characters"
    assert outcome["answer"] == 512
    assert outcome["locked"] == [[503, "text/html; charset=utf-8", "5"], [503, "application/problem+json", "5"]]
