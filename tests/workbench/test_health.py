"""Probes ask for health at any address of the machine, over HTTP, without a login."""

from typing import Any

import pytest
from django.test import Client

PROBES = ("/healthz", "/readyz")


@pytest.mark.django_db
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_is_answered_whatever_its_host_and_scheme(client: Client, settings: Any, path: str) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.ALLOWED_HOSTS = ["workbench.example"]
    assert client.get(path, headers={"Host": "10.0.0.1"}).status_code == 200
    assert client.get("/login/", headers={"Host": "workbench.example"}).status_code == 301


@pytest.mark.django_db
def test_a_redis_that_is_down_is_alive_but_not_ready(client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"not ready: no answer from Redis\n")
