"""Connections of clients who pause between their requests."""

import time
from contextlib import closing
from http.client import HTTPConnection

import httpx


def test_a_client_that_pauses_keeps_its_connection(api: httpx.Client) -> None:
    """uvicorn's default is five seconds, which is how long people pause; a request at that moment was lost."""
    with closing(HTTPConnection(api.base_url.host, api.base_url.port, timeout=300)) as connection:
        connection.connect()
        connection.auto_open = False
        for pause in (0, 7):
            time.sleep(pause)
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b"ok\n"
