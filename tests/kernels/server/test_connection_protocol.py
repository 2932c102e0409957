"""Requests of clients that would rather speak HTTP/2, and of those that speak HTTP/1.0."""

import asyncio
import json
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from kernels.server.http.client import EngineClient
from kernels.server.http.web import LONGEST_HEAD, WebServer, accepting, listening
from kernels.server.http.writing import piece_by_piece, with_list
from kernels.server.processes.connections import TAKEN, GivenConnections

BODY = b'{"prompt": "A list is"}'
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n" % len(BODY)
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
CLOSE = b"Connection: close\r\n"
Result = TypeVar("Result")
POST = Path(__file__).parents[3] / "benchmarks" / "Post.java"


async def echo(request: Request) -> StreamingResponse:
    body = await request.body()

    async def parts() -> AsyncIterator[bytes]:
        yield body[:5]
        yield body[5:]

    return StreamingResponse(parts())


def served(work: Callable[[int], Result]) -> Result:
    """What `work` returns in a thread, of the port of a server that answers with the request's body in two parts."""

    async def whole() -> Result:
        app = Starlette(routes=[Route("/", echo, methods=["POST"])])
        async with WebServer(app, EngineClient(lambda message: None)) as server:
            sockets = await listening("127.0.0.1", 0)
            port = sockets[0].getsockname()[1]
            with accepting(sockets, server.take, lambda: False):
                return await asyncio.to_thread(work, port)

    return asyncio.run(whole())


def answers_to(*parts: bytes) -> bytes:
    """All that comes back for the bytes of one connection, sent in parts."""

    def work(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                connection.sendall(part)
            return b"".join(iter(lambda: connection.recv(4096), b""))

    return served(work)


@pytest.mark.parametrize("size", [1, 60, 1000])
def test_a_wish_for_http_2_is_ignored_and_the_body_is_read(size: int) -> None:
    """Also by the second request of the connection."""
    sent = HEAD + UPGRADE + b"\r\n" + BODY + HEAD + UPGRADE.replace(b"Upgrade,", b"Upgrade, close,") + b"\r\n" + BODY
    received = answers_to(*(sent[at : at + size] for at in range(0, len(sent), size)))
    assert (received.count(b"HTTP/1.1 200"), received.count(BODY[5:])) == (2, 2)


def test_an_answer_in_http_1_0_is_not_in_chunks_and_ends_with_the_connection() -> None:
    head, _, body = answers_to(HEAD.replace(b"1.1", b"1.0") + b"\r\n" + BODY).partition(b"\r\n\r\n")
    assert (b"chunked" in head.lower(), body) == (False, BODY)
    assert b"chunked" in answers_to(HEAD + CLOSE + b"\r\n" + BODY)


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02\x00\x01", HEAD + b"A: " + b"a" * LONGEST_HEAD], ids=["tls", "long"]
)
def test_what_is_no_request_is_refused_at_once(sent: bytes) -> None:
    assert answers_to(sent).startswith(b"HTTP/1.1 400")


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_javas_own_client_is_answered() -> None:
    def work(port: int) -> str:
        command = ["java", str(POST), f"http://127.0.0.1:{port}/", *[BODY.decode()] * 2]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout

    assert served(work).splitlines() == [f"200 {BODY.decode()}"] * 2


def test_what_a_process_has_taken_does_not_come_back_when_it_ends_before_it_took_the_rest() -> None:
    back: list[socket.socket] = []

    async def whole() -> None:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        given = GivenConnections(control, back.append)
        taken, left = socket.socket(), socket.socket()
        assert given.give(taken)
        assert given.give(left)
        _, descriptors, _, _ = socket.recv_fds(theirs, 1, 1)
        socket.close(descriptors[0])
        theirs.send(TAKEN)
        theirs.close()
        given.close()  # its end is told by another pipe, so it may come before the loop has read the answer
        assert back == [left]
        assert taken.fileno() == -1
        left.close()

    asyncio.run(whole())


def written(elements: Iterator[object], others: dict) -> tuple[bytes, int]:
    """The JSON, and how many turns others had meanwhile."""

    async def whole() -> tuple[bytes, int]:
        turns, writing = 0, asyncio.ensure_future(with_list("choices", elements, others))
        while not writing.done():
            turns += 1
            await asyncio.sleep(0)
        return await writing, turns

    return asyncio.run(whole())


@pytest.mark.parametrize("elements", [[], [{"text": 'ä"\n'}], [{"a": at} for at in range(500)]], ids=len)
def test_others_get_a_turn_behind_each_element(elements: list) -> None:
    result, turns = written(iter(elements), {"id": "é", "usage": {"b": None}})
    assert json.loads(result) == {"id": "é", "usage": {"b": None}, "choices": elements}
    assert turns > len(elements)


def test_others_go_on_while_a_large_document_is_written_in_a_thread() -> None:
    document = {"tokens": [*range(500_000)], "token_strs": ["ä"]}
    with ThreadPoolExecutor(1) as pool:
        writing, turns = pool.submit(piece_by_piece, document), 0
        while not writing.done():
            turns += 1
            time.sleep(0.001)
    assert json.loads(writing.result()) == document
    assert turns > 4
