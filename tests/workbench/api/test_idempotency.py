"""A POST that is sent twice with one Idempotency-Key is done once."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from workbench.api.in_flight import try_lock
from workbench.api.models import IdempotentRequest

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.workbench.api.frame_site")]
SLA = {"objectives": [{"metric": "ttft", "limit": 100}]}


def _post(client, document=SLA, key="k1", address="/api/frame/sla"):
    return client.post(address, document, headers={"Idempotency-Key": key})


def test_another_request_with_the_same_key_is_a_conflict_until_it_is_forgotten_after_a_day(api, engineer):
    client = api(engineer)
    _post(client)
    for response in (_post(client, SLA | {"name": "other"}), _post(client, address="/api/frame/refuse")):
        assert (response.status_code, "used for another request" in response.json()["detail"]) == (409, True)
    first = _post(client).json()
    IdempotentRequest.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert _post(client).json() != first
    assert IdempotentRequest.objects.count() == 1


def test_a_request_in_flight_is_a_conflict_and_what_a_killed_process_did_not_answer_is_done_at_once(api, engineer):
    client = api(engineer)
    with try_lock(f"token:{engineer.tokens.get().pk} k1"):
        assert "still being answered" in _post(client).json()["detail"]
    assert _post(client).status_code == 200
    IdempotentRequest.objects.update(status=None)
    assert "Idempotency-Replayed" not in _post(client).headers
    assert IdempotentRequest.objects.get().status == 200


def test_a_killed_process_holds_nothing_any_more():
    with try_lock("a name") as free, try_lock("a name") as again, try_lock("another name") as other:
        assert (free, again, other) == (True, False, True)
    program = """
import sys
from workbench.api.in_flight import try_lock
with try_lock("a name"):
    print("held", flush=True)
    sys.stdin.read()
"""
    command = [sys.executable, "-c", program]
    data = {"DJANGO_SETTINGS_MODULE": "workbench.settings", "WORKBENCH_DATA": str(settings.WORKBENCH_DATA)}
    with subprocess.Popen(command, env=os.environ | data, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with try_lock("a name") as free:
            assert not free
        process.kill()
        process.wait()
        with try_lock("a name") as free:
            assert free


def test_bad_input_is_answered_again_and_a_crash_is_tried_again(api, engineer):
    client = api(engineer)
    assert _post(client, {}).status_code == 422
    assert _post(client, {})["Idempotency-Replayed"] == "true"
    client.raise_request_exception = False
    for _ in range(2):
        response = _post(client, address="/api/frame/crash", key="k2")
        assert response.status_code == 500
        assert "Idempotency-Replayed" not in response.headers


def test_the_second_answer_to_a_caller_is_the_first_and_one_who_is_refused_leaves_none(api, engineer, client, account):
    assert _post(client).status_code == 401
    assert _post(api(engineer, "read")).status_code == 403
    assert not IdempotentRequest.objects.exists()
    client = api(engineer)
    first, second = _post(client), _post(client)
    assert second.json() == first.json()
    assert second["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert _post(client, key="k2").json()["number"] > first.json()["number"]
    assert _post(api(account)).json() != first.json()
