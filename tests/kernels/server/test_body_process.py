"""Large bodies are read by another process: with the same result, and while the server's event loop goes on."""

import asyncio
import contextlib
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import psutil
import pytest
from pydantic import BaseModel
from starlette.requests import Request

from kernels.server.http import app
from kernels.server.http.app import LARGE_BODY, document_of
from kernels.server.http.body_parsing import document_in
from kernels.server.http.body_process import BodyReader, ReaderEnded
from kernels.server.http.embeddings import EmbeddingRequest
from kernels.server.http.errors import ApiError
from kernels.server.http.prompts import MANY_IDS, Prompts
from kernels.server.http.schemas import ChatCompletionRequest, CompletionRequest
from kernels.server.http.text import ByteText
from kernels.server.messages import Ready

MAX_LENGTH = 70_000
TEXT = {"model": "m", "prompt": 'ä"' * LARGE_BODY, "top_k": -1, "stop": "x"}


@pytest.fixture
def reader() -> Iterator[BodyReader]:
    body_reader = BodyReader()
    yield body_reader
    body_reader.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[BodyReader]:
    """For bodies that leave its process as it was."""
    body_reader = BodyReader()
    yield body_reader
    body_reader.close()


def bytes_of(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CompletionRequest, TEXT),
        (CompletionRequest, TEXT | {"prompt": [*range(MAX_LENGTH)], "unknown": [[]] * 9}),
        (CompletionRequest, TEXT | {"prompt": [[*range(at, 3 * at)] for at in range(1, 700)]}),
        (
            ChatCompletionRequest,
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 16_000}]},
        ),
        (EmbeddingRequest, {"model": "m", "input": [[1, 2]] * 2048}),
        (EmbeddingRequest, {"model": "m", "input": ["a"] * 2048}),
    ],
)
def test_documents_are_the_same(kind: type[BaseModel], given: dict[str, Any], shared: BodyReader) -> None:
    body = bytes_of(given)
    value = asyncio.run(shared.read(kind, body, MAX_LENGTH))
    assert value == document_in(body, kind, MAX_LENGTH)
    assert value.model_fields_set == document_in(body, kind, MAX_LENGTH).model_fields_set


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (CompletionRequest, b"{"), (CompletionRequest, b"\xff"), (CompletionRequest, b"[" * 200_000),
        (CompletionRequest, bytes_of({"model": "m"})),
        (CompletionRequest, bytes_of({"model": "m", "prompt": [1] * (MAX_LENGTH + 1)})),
        (CompletionRequest, bytes_of({"model": "m", "prompt": "a", "logit_bias": {"1": 200}})),
        (ChatCompletionRequest, bytes_of({"model": "m", "messages": [[]] * 200_000})),
        (EmbeddingRequest, bytes_of({"model": "m", "input": [[]] * 200_000})),
    ],
)  # fmt: skip
def test_errors_are_the_same(kind: type[BaseModel], body: bytes, shared: BodyReader) -> None:
    with pytest.raises(ApiError) as here:
        document_in(body, kind, MAX_LENGTH)
    with pytest.raises(ApiError) as there:
        asyncio.run(shared.read(kind, body, MAX_LENGTH))
    assert (there.value.status, there.value.document) == (here.value.status, here.value.document)


def asked(body: bytes, reader: BodyReader) -> Awaitable[CompletionRequest]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return document_of(Request({"type": "http", "headers": []}, receive), CompletionRequest, MAX_LENGTH, reader)


def test_the_event_loop_goes_on_while_a_large_body_is_read(reader: BodyReader) -> None:
    """The process is stopped meanwhile, so that nothing here depends on how fast it is."""

    async def whole() -> None:
        await asked(bytes_of(TEXT), reader)
        os.kill(reader._process.pid, signal.SIGSTOP)
        large = asyncio.ensure_future(asked(bytes_of(TEXT), reader))
        for _ in range(3):
            assert (await asked(bytes_of({"model": "m", "prompt": "b"}), reader)).prompt == "b"
        assert not large.done()
        os.kill(reader._process.pid, signal.SIGCONT)
        assert (await large).prompt == TEXT["prompt"]

    asyncio.run(whole())


def test_the_servers_process_reads_small_bodies_alone(reader: BodyReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(body: bytes, *args: Any) -> CompletionRequest:
        assert len(body) < LARGE_BODY
        return document_in(body, *args)

    monkeypatch.setattr(app, "document_in", here)
    edge = bytes_of(TEXT | {"prompt": ""})
    for size in (LARGE_BODY - 1, LARGE_BODY):
        body = bytes_of(TEXT | {"prompt": "a" * (size - len(edge))})
        assert len(body) == size
        assert asyncio.run(asked(body, reader)).prompt == "a" * (size - len(edge))
    assert reader._process is not None


@pytest.mark.parametrize("reading", [False, True], ids=["before", "while it reads"])
def test_a_body_whose_process_is_killed_is_read_by_another(reading: bool, reader: BodyReader) -> None:
    async def whole() -> None:
        await asked(bytes_of(TEXT), reader)
        first = reader._process
        os.kill(first.pid, signal.SIGSTOP if reading else signal.SIGKILL)
        if not reading:
            os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        again = asyncio.ensure_future(asked(bytes_of(TEXT), reader))
        await asyncio.sleep(0)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first.pid, signal.SIGKILL)
        assert (await again).prompt == TEXT["prompt"]
        assert reader._process not in (None, first)

    asyncio.run(whole())


def test_a_body_that_ends_two_processes_fails_and_others_do_not() -> None:
    class Killing(BodyReader):
        kills = 2

        def _start(self) -> Connection:
            connection = super()._start()
            if self.kills:
                self.kills -= 1
                self._process.kill()
            return connection

    reader = Killing()
    with pytest.raises(ReaderEnded):
        asyncio.run(asked(bytes_of(TEXT), reader))
    assert reader.kills == 0
    assert asyncio.run(asked(bytes_of(TEXT), reader)).prompt == TEXT["prompt"]
    reader.close()


def test_signals_to_the_group_do_not_end_it_and_the_servers_end_does() -> None:
    reader = BodyReader()
    asyncio.run(asked(bytes_of(TEXT), reader))
    process = psutil.Process(reader._process.pid)
    for value in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(value)
    assert asyncio.run(asked(bytes_of(TEXT), reader)).prompt == TEXT["prompt"]
    reader.close()
    assert not process.is_running()


@pytest.mark.parametrize(
    ("message", "variables", "beside"),
    [({}, {}, False), ({}, {"tools": [{}]}, True), ({"tool_calls": [{}]}, {}, True), ({"name": "Ann"}, {}, True)],
)
def test_a_chat_of_unknown_length_is_written_beside_others(message: dict, variables: dict, beside: bool) -> None:
    class Text(ByteText):
        def chat(self, *_: Any) -> list[int]:
            return [int(threading.current_thread() is not threading.main_thread())]

    prompts = Prompts(Text(frozenset()), Ready(9, 9, "cpu"), 1, "messages")
    chat = [{"role": "user", "content": "a"} | message]
    assert asyncio.run(prompts.of_chat(chat, variables)) == [beside]


def test_others_get_a_turn_while_many_ids_are_looked_at() -> None:
    prompts = Prompts(ByteText(frozenset()), Ready(MANY_IDS + 1, 9, "cpu"), 1, "prompt")
    turns = 0

    async def count(going: Callable[[], bool]) -> None:
        nonlocal turns
        while going():
            turns += 1
            await asyncio.sleep(0)

    async def whole() -> None:
        looking = asyncio.ensure_future(prompts.encode_all([[1] * MANY_IDS] * 9))
        await count(lambda: not looking.done())
        assert len(await looking) == 9

    asyncio.run(whole())
    assert turns > 4
