"""What an organisation keeps in the database counts against its quota and the disk's reserve, and deletion frees it."""

import json
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.test import Client

from tests import sample_bring_up
from tests.programs import python
from workbench.api import quota
from workbench.api.models import IdempotentRequest
from workbench.audit.models import Action, Entry
from workbench.intake.models import Workload
from workbench.prices import services as prices
from workbench.prices.models import PriceBookRow
from workbench.prices.services import add_price_book, price_book
from workbench.reports.models import Report
from workbench.runs.models import StageRun
from workers.documents.prices import PriceBook

pytestmark = pytest.mark.django_db
BOUNDED = {
    "intake.Recording": "figures of a file that counts itself",
    "intake.Upload": "one problem in a sentence; gone after a day",
    "notifications.Subscription": "names of kinds; one a member",
    "notifications.Webhook": "names of kinds and a secret; 20 an organisation",
    "reports.Logo": "drawn anew; one an organisation",
    "runs.Event": "what stages say; gone after EVENT_DAYS",
    "runs.Run": "one error in a sentence; ORGANISATION_RUNS",
}
DOCUMENT = {"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 5}]}


def _book(name: str = "Contract") -> dict[str, Any]:
    prices = [{"gpu_class": f"gpu-{at}", "name": "N", "low": 1, "typical": 2, "high": 3} for at in range(32)]
    return {"name": name, "date": "2026-01-01", "source": "a contract", "prices": prices}


def _post(client: Client, address: str, body: Any, **headers: str) -> Any:
    return client.post(f"/api/v1/{address}", body, headers=headers)


def test_every_long_column_counts_or_is_bounded():
    own = {model._meta.label for model in apps.get_models() if model.__module__.startswith("workbench.")}
    kinds = (models.JSONField, models.TextField, models.BinaryField)
    long = {item for item in own if any(isinstance(field, kinds) for field in apps.get_model(item)._meta.fields)}
    assert long == set(quota.ROWS) | set(BOUNDED)


def test_rows_count_by_their_bytes_until_they_are_deleted(api, engineer, workload, done):
    organisation = workload.organisation
    before = quota.used_bytes(organisation)
    stage = StageRun.objects.filter(run=done).latest("position")
    stage.partial = {"text": "x" * 100_000}
    stage.save()
    assert quota.used_bytes(organisation) - before > 100_000
    done.delete()
    stored = len(json.dumps(workload.document))
    assert stored < Workload.objects.get(pk=workload.pk).row_bytes < stored + 2_000
    before, with_run = quota.used_bytes(organisation), before
    assert before < with_run
    workload.document |= {"quality_text": "What is measured on. " * 5_000}
    workload.save()
    assert quota.used_bytes(organisation) - before > 100_000
    assert api(engineer).delete(f"/api/v1/workloads/{workload.id}").status_code == 204
    entries = Entry.objects.filter(action__in=[Action.TOKEN_ISSUED, Action.WORKLOAD_DELETED])
    left = sum(entries.values_list("row_bytes", flat=True))
    assert quota.used_bytes(organisation) < before + left < before + 2_000


BODIES = {
    "workloads": lambda run: DOCUMENT,
    "prices": lambda run: _book(),
    "runs": lambda run: {"workload": str(run.workload_id)},
    "reports": lambda run: {"run": str(run.id)},
    "bring-ups": lambda run: sample_bring_up.made_up().model_dump_json(),
}
"""Everything by which a member keeps rows of a length of his own."""


@pytest.mark.parametrize("address", BODIES)
def test_a_full_quota_refuses_every_row_in_one_sentence(api, admin, done, settings, address):
    client, organisation = api(admin), done.organisation
    settings.ORGANISATION_QUOTA_BYTES = quota.used_bytes(organisation)
    body = BODIES[address](done)
    refused = _post(client, address, body)
    assert (refused.status_code, refused.json()["detail"].partition(";")[0]) == (
        413,
        "quota: the organisation's quota is used up",
    )
    assert quota.used_bytes(organisation) == settings.ORGANISATION_QUOTA_BYTES, "nothing was kept"
    settings.ORGANISATION_QUOTA_BYTES += 10**9
    settings.DISK_RESERVE_BYTES = 2**62
    refused = _post(client, address, body)
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (507, "disk")
    settings.DISK_RESERVE_BYTES = 0
    assert _post(client, address, body).status_code == 201


def test_pages_say_the_same_and_lose_nothing(browser, admin, done, settings):
    client = browser(admin)
    settings.ORGANISATION_QUOTA_BYTES = 0
    fields = {"name": "Contract", "date": "2026-11-01", "source": "Ours", "h200_low": 1, "h200_typical": 2}
    page = client.post("/prices/", fields | {"h200_high": 3})
    assert (page.status_code, "quota is used up" in page.content.decode()) == (422, True)
    assert 'value="Contract"' in page.content.decode()
    page = client.post(f"/runs/{done.id}/freeze/", follow=True)
    assert "quota is used up" in page.content.decode()
    assert not PriceBookRow.objects.exists()
    assert not Report.objects.exists()


def test_a_change_of_prices_is_kept_as_a_difference_and_their_history_has_an_end(organisation, admin, monkeypatch):
    add_price_book(organisation, admin, PriceBook.model_validate(_book()))
    again = price_book(organisation).model_copy(deep=True)
    again.prices[0].high = 4
    add_price_book(organisation, admin, again)
    entry = Entry.objects.filter(action=Action.PRICES_CHANGED).first()
    assert entry is not None
    assert entry.details == {"before": {"prices.gpu-0": [1, 2, 3]}, "after": {"prices.gpu-0": [1, 2, 4]}}
    book = PriceBook.model_validate(_book())
    monkeypatch.setattr(prices, "KEPT_BOOKS", 3)
    for at in range(5):
        add_price_book(organisation, admin, book.model_copy(update={"name": f"Book {at}"}))
    kept = [row.book.name for row in PriceBookRow.objects.filter(organisation=organisation)]
    assert kept == ["Book 4", "Book 3", "Book 2"]


def test_answers_that_are_kept_count_and_a_full_quota_keeps_none(api, engineer, organisation, done, settings):
    before = quota.used_bytes(organisation)
    client = api(engineer)
    assert _post(client, "workloads", DOCUMENT, **{"Idempotency-Key": "k"}).status_code == 201
    kept = IdempotentRequest.objects.get()
    assert kept.row_bytes == 512 + len(kept.body)
    assert quota.used_bytes(organisation) - before > kept.row_bytes + Workload.objects.latest("created_at").row_bytes
    client, organisation = api(engineer), done.organisation
    settings.ORGANISATION_QUOTA_BYTES = quota.used_bytes(organisation)
    for _ in range(2):
        answer = _post(client, f"runs/{done.id}/cancel", {}, **{"Idempotency-Key": "k"})
        assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (409, False)
    assert quota.used_bytes(organisation) == settings.ORGANISATION_QUOTA_BYTES, "nothing was kept"


def test_an_open_deed_is_refused_when_a_person_did_too_much_today(api, admin, account, monkeypatch):
    monkeypatch.setattr("workbench.audit.services.MAX_PER_DAY", 3)
    client, another = api(admin), api(account)
    made = [_post(client, "tokens", {"name": "t", "scope": "read", "days": 1}) for _ in range(4)]
    last = made[-1]
    assert last.status_code == 403
    assert last.json()["detail"] == "You did 3 things within a day that the audit log keeps; go on tomorrow."
    first = next(item.json()["id"] for item in made if item.status_code == 201)
    assert client.delete(f"/api/v1/tokens/{first}").status_code == 204, "what takes away is never refused"
    assert _post(another, "prices", _book()).status_code == 201


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"quality_text": "€" * 100_000}, "quality_text: has 300,000 bytes in UTF-8; at most 262,144 are taken"),
        ({"constraints": {"gpu_classes": ["h200"] * 17}}, "constraints.gpu_classes: should have at most 16 items"),
        ({"constraints": {"precisions": ["bf16"] * 17}}, "constraints.precisions: should have at most 16 items"),
    ],
)
def test_a_workload_is_bounded(api, engineer, change, sentence):
    answer = _post(api(engineer), "workloads", DOCUMENT | change)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(sentence)


SHRINK = """
import os, django; django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from workbench.storage import disk
from workbench.prices.models import PriceBookRow
call_command("migrate", "prices", verbosity=0)
file = settings.DATABASES["default"]["NAME"]
def size():
    connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return os.path.getsize(file)
sizes = [size()]
PriceBookRow.objects.create(document={"text": "x" * 2**23})
sizes.append(size())
PriceBookRow.objects.all().delete()
disk.shrink_database()
sizes.append(size())
print(*sizes)
"""


def test_deleted_rows_give_their_space_back_to_the_disk(tmp_path):
    env = {"WORKBENCH_DATA": str(tmp_path), "DATABASE_URL": f"sqlite:///{tmp_path}/db.sqlite3"}
    empty, full, after = map(int, python("-c", SHRINK, env=env).split())
    assert full > empty + 2**23
    assert after < empty + 2**20
