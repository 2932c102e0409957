"""Who controls Redis plants pickles there: nothing runs, a sentence is logged, and work goes on."""

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.workers.pipeline.stack import Stack
from workbench.accounts.throttle import _key
from workbench.embedded.broker import CACHE_DATABASE, GPU_DATABASE, LEDGER_DATABASE
from workers.documents.broker import GPU_TASK, SWEEP_RUNS_TASK


class Attack:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.proof),)


def _message(queue: str, task: str, attack: bytes) -> str:
    info = {"exchange": "", "routing_key": queue}
    properties = {"body_encoding": "base64", "delivery_tag": "planted", "delivery_info": info, "delivery_mode": 2}
    headers = {"task": task, "id": "planted", "lang": "py", "argsrepr": "()"}
    content = {"content-encoding": "binary", "content-type": "application/x-python-serialize"}
    body = base64.b64encode(attack).decode()
    return json.dumps({"body": body, "headers": headers, "properties": properties, **content})


def _log(stack: Stack, name: str) -> str:
    return (stack.directory / f"{name}.log").read_text(errors="replace")


def _database(stack: Stack, number: int) -> redis.Redis:
    return redis.Redis(port=stack.redis_port, db=number, socket_timeout=60)


def test_a_pickle_among_the_counters_is_not_read(stack: Stack, tmp_path: Path) -> None:
    """The attack was a pickle under the keys of the login's limits, and one login of nobody."""
    login = f"http://127.0.0.1:{stack.web_port}/login/"
    counters, proof = _database(stack, CACHE_DATABASE), tmp_path / "executed"
    with httpx.Client(timeout=120) as visitor:

        def try_to_log_in() -> int:
            visitor.get(login)
            form = {"username": "somebody@x.test", "password": "wrong"}
            form["csrfmiddlewaretoken"] = visitor.cookies["csrftoken"]
            return visitor.post(login, data=form).status_code

        assert try_to_log_in() == 200
        counted = counters.keys("cache:1:login:*")
        assert len(counted) == 3
        read = f"cache:1:{_key('known', '127.0.0.1', 'somebody@x.test')}"
        for key in (read, *counted):
            counters.set(key, pickle.dumps(Attack(proof)))
        assert try_to_log_in() == 200
    assert not proof.exists()
    assert "the cache holds under login:" in _log(stack, "web")
    assert counters.get(read) is None
    assert {counters.get(key) for key in counted} <= {b"0", b"1", None}


def test_a_pickle_as_a_message_is_not_read_and_every_role_may_do_what_it_needs(stack: Stack, tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    ledger, gpu = (LEDGER_DATABASE, SWEEP_RUNS_TASK, "ledger"), (GPU_DATABASE, GPU_TASK, "worker")
    for queue, (database, task, worker) in {"ledger": ledger, "gpu.cpu": gpu}.items():
        _database(stack, database).lpush(queue, _message(queue, task, pickle.dumps(Attack(proof))))
        stack.until(lambda worker=worker: "ContentDisallowed" in _log(stack, worker), f"what {worker} says of a pickle")
    assert stack.wait(stack.submit("nothing"))["state"] == "done"
    assert not proof.exists()
    # Of what the roles need Redis refused nothing but what redis-py may leave out: the names of its connections.
    refused = {(entry["username"], entry["reason"], entry["object"]) for entry in _database(stack, 0).acl_log()}
    assert {entry for entry in refused if entry[2].split("|")[0] != "client"} == set()
