"""An OpenAI-compatible server without a model: it streams tokens at known times and keeps when it wrote each.

    python -m benchmarks.stub_server --port 8001 --first-ms 20 --gap-ms 5

What generators measure is held against `GET /log`: for each request its prompt and authorization, when it was read, and
when each token was written, in nanoseconds of the monotonic clock, which processes of one machine share. The model's
name says how it behaves: see BEHAVIOURS.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

BEHAVIOURS = {
    "stub": "tokens at the times that were set",
    "stub-pairs": "two tokens in each event",
    "stub-302": "the answer 302, with an address in its head",
    "stub-401": "the answer 401, which repeats the key",
    "stub-429": "the answer 429",
    "stub-strict": "the answer 400 to a field that not every server knows",
    "stub-garbage": "an event that is no JSON",
    "stub-json": "a document where a stream was asked for",
    "stub-noise": "bytes that are no HTTP",
    "stub-upgrade": "another protocol",
    "stub-head": "a head without end",
    "stub-half": "half of the tokens, then the end of the connection",
    "stub-nothing": "the end of the connection",
    "stub-silent": "no answer, and no end",
    "stub-uncounted": "tokens without usage",
    "stub-short": "half of the tokens, as if the text had ended",
    "stub-many": "a count of a billion tokens",
    "stub-empty": "events without text, and a count of 0",
}
COUNTS = {"stub-many": 10**9, "stub-empty": 0}
"""The count of an answer's tokens in place of the true one."""
STATUSES = {
    "stub-302": (302, "Found", "Elsewhere"),
    "stub-401": (401, "Unauthorized", "Incorrect API key: {key}"),
    "stub-429": (429, "Too Many", "Slow down"),
}
NOT_KNOWN = ("ignore_eos", "stream_options", "max_tokens")
"""Fields that stub-strict refuses."""
WIRE = {
    "stub-noise": b"\x00\x01 no HTTP\r\n\r\n",
    "stub-upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\nother",
    "stub-head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (80 << 10),
    "stub-nothing": b"",
}
"""What is written in place of an answer before the connection is closed."""
TOKEN = " word"


@dataclass
class Times:
    """When the stub writes: the first token so long after the request was read, the others so long after each other."""

    first_s: float
    gap_s: float


@dataclass
class Log:
    """What was served, in the order in which requests were read."""

    rows: list[dict[str, Any]] = field(default_factory=list)


class Stub(asyncio.Protocol):
    """One connection: requests one after the other, kept open between them."""

    def __init__(self, times: Times, log: Log) -> None:
        self._times, self._log, self._rest = times, log, b""
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone; what was not written is not written any more."""
        for timer in self._timers:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answers each whole request in what came."""
        self._rest += data
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            lines = self._rest[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            length = end + 4 + int(headers.get("content-length", 0))
            if len(self._rest) < length:
                return
            body, self._rest = self._rest[end + 4 : length], self._rest[length:]
            self._answer(lines[0].split(" ")[1], headers, body)

    def _answer(self, path: str, headers: dict[str, str], body: bytes) -> None:
        if path == "/log":
            self._document(200, "OK", self._log.rows)
            self._log.rows = []
            return
        if not body:  # a client that looks whether the server lives, or for its models
            self._document(200, "OK", {"object": "list", "data": [{"id": "stub", "object": "model"}]})
            return
        request = json.loads(body)
        model, read_ns = request["model"], time.monotonic_ns()
        row: dict[str, Any] = {"prompt": _prompt(request), "authorization": headers.get("authorization", "")}
        row |= {"read_ns": read_ns, "token_ns": []}
        self._log.rows.append(row)
        if model in STATUSES:
            status, phrase, sentence = STATUSES[model]
            message = sentence.format(key=headers.get("authorization", "").removeprefix("Bearer "))
            self._document(status, phrase, {"error": {"message": message}})
        elif model == "stub-strict" and (unknown := [name for name in NOT_KNOWN if name in request]):
            self._document(400, "Bad Request", {"error": {"message": f"Unrecognized request argument: {unknown[0]}"}})
        elif model in WIRE:
            self._transport.write(WIRE[model])
            self._transport.close()
        elif path.endswith("/embeddings"):
            self._later(self._times.first_s, lambda: self._embedding(row))
        elif model == "stub-json":
            self._document(200, "OK", {"choices": [{"text": TOKEN}]})
        elif model != "stub-silent":
            self._stream(request, row, chat="messages" in request)

    def _embedding(self, row: dict[str, Any]) -> None:
        row["token_ns"].append(time.monotonic_ns())
        self._document(200, "OK", {"data": [{"embedding": [0.0] * 8}], "usage": {"prompt_tokens": _count(row)}})

    def _stream(self, request: dict[str, Any], row: dict[str, Any], chat: bool) -> None:
        """Schedules the tokens of one answer, at absolute times."""
        model, max_tokens = request["model"], request.get("max_tokens") or request.get("max_completion_tokens") or 16
        per_event = 2 if model == "stub-pairs" else 1
        events = max(1, max_tokens // (2 if model in ("stub-half", "stub-short") else 1) // per_event)
        usage = {"prompt_tokens": _count(row), "completion_tokens": COUNTS.get(model, events * per_event)}
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        if chat:
            self._event(_chunk(chat, "", role=True))
        for index in range(events):
            last = index == events - 1
            text = "{" if model == "stub-garbage" else _chunk(chat, "" if model == "stub-empty" else TOKEN * per_event)
            self._later(self._times.first_s + index * self._times.gap_s, self._token(row, text, last, usage, request))

    def _token(
        self, row: dict[str, Any], text: str, last: bool, usage: dict[str, int], request: dict[str, Any]
    ) -> Callable[[], None]:
        def write() -> None:
            row["token_ns"].append(time.monotonic_ns())
            self._event(text)
            if last and request["model"] == "stub-half":
                self._transport.close()
            elif last:
                self._event(_chunk("messages" in request, "", finish="length"))
                if request["model"] != "stub-uncounted" and request.get("stream_options", {}).get("include_usage"):
                    self._event(json.dumps({"choices": [], "usage": usage}))
                self._event("[DONE]")
                self._transport.write(b"0\r\n\r\n")

        return write

    def _event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _document(self, status: int, phrase: str, document: Any) -> None:
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        head += "Location: /v1/completions\r\n\r\n" if status == 302 else "\r\n"
        self._transport.write(head.encode() + body)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time()]
        self._timers.append(self._loop.call_later(seconds, call))


def _prompt(request: dict[str, Any]) -> str:
    prompt = request.get("prompt") or request.get("input") or request["messages"][-1]["content"]
    return prompt if isinstance(prompt, str) else json.dumps(prompt)


def _count(row: dict[str, Any]) -> int:
    """One token a word, and one for the beginning, which servers count as well."""
    return len(row["prompt"].split()) + 1


def _chunk(chat: bool, text: str, finish: str | None = None, role: bool = False) -> str:
    message: dict[str, Any] = {"content": text} if text else {}
    delta: dict[str, Any] = {"delta": message | ({"role": "assistant"} if role else {})} if chat else {"text": text}
    kind = "chat.completion.chunk" if chat else "text_completion"
    choice = {"index": 0, "finish_reason": finish} | delta
    return json.dumps({"id": "stub", "object": kind, "created": 0, "model": "stub", "choices": [choice]})


async def serve(port: int, times: Times, ready: Callable[[int], None]) -> None:
    """Serves on 127.0.0.1 until cancelled; `ready` is called with the port, which 0 leaves to the system."""
    log = Log()
    server = await asyncio.get_running_loop().create_server(lambda: Stub(times, log), "127.0.0.1", port, backlog=1024)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--first-ms", type=float, default=20)
    parser.add_argument("--gap-ms", type=float, default=5)
    options = parser.parse_args()
    times = Times(options.first_ms / 1e3, options.gap_ms / 1e3)
    asyncio.run(serve(options.port, times, lambda port: print(port, flush=True)))


if __name__ == "__main__":
    main()
