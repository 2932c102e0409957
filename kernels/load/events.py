"""Answers of an OpenAI-compatible server, read as they arrive: server-sent events, or one JSON document."""

import json
from codecs import BOM_UTF8
from http import HTTPStatus
from typing import Any, Protocol

from kernels.load.exchange import CANCELLED, Exchange

LONGEST_EVENT = 4 * 2**20
LONGEST_DOCUMENT = 4 * 2**20
"""An answer of one document is the embedding of one text; thousands may be open at once."""
LONGEST_REFUSAL = 64 * 2**10
MAX_SURPLUS_TOKENS = 64
"""So many tokens an answer may have beyond those asked for, where a server drafts several at once."""
MAX_PROMPT_TOKENS = 10**8
"""Tokens of a prompt, at most."""
SHOWN_CHARACTERS = 200
FIRST_DATA = BOM_UTF8 + b"data:"
GENERATED = ("text", "content", "reasoning_content", "reasoning", "tool_calls", "refusal")
"""Fields of a choice, or of its delta, that hold what the model generated."""
GARBAGE, HALF, NOTHING, EMPTY = "garbage", "half a stream", "no answer", "no token"
IN_STREAM = "error in the stream"


class BodyReader(Protocol):
    """Takes the body of an answer piece by piece and writes what it says into the exchange."""

    def feed(self, data: bytes, now_ns: int) -> None: ...

    def close(self, now_ns: int) -> None: ...


class EventReader:
    """The stream of a completion: server-sent events of JSON, then `data: [DONE]`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._rest = b""
        self._unfinished = bytearray()
        self._after_cr = False
        self._finish = ""
        self._done = False

    def feed(self, data: bytes, now_ns: int) -> None:
        """Reads whole lines that arrived at `now_ns`, ended by LF, CRLF or CR; an event's data may have several."""
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        *lines, self._rest = (self._rest + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if line.startswith((b"data:", FIRST_DATA)):
                self._data(line.removeprefix(BOM_UTF8).removeprefix(b"data:").strip(), now_ns)
            elif not line:
                self._end_event(now_ns)
        if len(self._rest) + len(self._unfinished) > LONGEST_EVENT:
            self._exchange.fail(GARBAGE, f"The server sent an event of more than {LONGEST_EVENT:,} bytes.", now_ns)

    def close(self, now_ns: int) -> None:
        """Ends the exchange; without a finish reason or `[DONE]` it was half a stream, without a token no answer."""
        self._end_event(now_ns)
        if self._exchange.error or self._exchange.ended:
            return
        if not self._done and not self._finish:
            came = f"after {len(self._exchange.chunk_ns)} events, without a finish reason"
            self._exchange.fail(HALF, f"The server's stream ended {came}.", now_ns)
            return
        if not self._exchange.tokens:
            self._exchange.fail(EMPTY, "The server ended its answer without a token.", now_ns)
            return
        self._exchange.ended = self._finish or "done"
        self._exchange.end_ns = now_ns

    def _data(self, text: bytes, now_ns: int) -> None:
        document = None if self._unfinished else _object(text)
        if document is not None:
            self._event(document, now_ns)
        elif text == b"[DONE]":
            self._done = True
        elif text:
            self._unfinished += text + b"\n"

    def _end_event(self, now_ns: int) -> None:
        if not self._unfinished:
            return
        text, self._unfinished = bytes(self._unfinished), bytearray()
        document = _object(text)
        if document is None:
            self._exchange.fail(GARBAGE, f"The server sent an event that is no JSON: {_printable(text)}", now_ns)
        else:
            self._event(document, now_ns)

    def _event(self, document: dict[str, Any], now_ns: int) -> None:
        if _is_error(document):
            self._exchange.fail(IN_STREAM, f"The server broke off with an error: {_message(document)}", now_ns)
        else:
            for choice in _choices(document):
                self._choice(choice, now_ns)
            _take_usage(self._exchange, document, now_ns)

    def _choice(self, choice: dict[str, Any], now_ns: int) -> None:
        exchange, delta = self._exchange, choice.get("delta")
        content = delta if isinstance(delta, dict) else choice
        text = any(map(content.get, GENERATED))
        begins = not text and "role" in content and not exchange.chunk_ns and not choice.get("finish_reason")
        if not begins:  # the first event of a chat names its role only
            exchange.chunk_ns.append(now_ns)
            exchange.with_text.append(text)
        exchange.prompt_ids += _ids(choice, "prompt_token_ids")
        exchange.ids += _ids(choice, "token_ids")
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
        after = exchange.planned.cancel_after
        if after is not None and len(exchange.chunk_ns) >= after and not exchange.ended:
            exchange.ended, exchange.end_ns = CANCELLED, now_ns


class DocumentReader:
    """An answer of one JSON document: embeddings, or a completion that is not streamed."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._body = bytearray()

    def feed(self, data: bytes, now_ns: int) -> None:
        """Keeps a piece of the document."""
        self._body += data
        if len(self._body) > LONGEST_DOCUMENT:
            self._exchange.fail(GARBAGE, f"The answer is larger than {LONGEST_DOCUMENT:,} bytes.", now_ns)

    def close(self, now_ns: int) -> None:
        """Reads the document; its tokens could be read at `now_ns`, all at once."""
        document = _object(bytes(self._body))
        if document is None:
            self._exchange.fail(GARBAGE, f"The server's answer is no JSON: {_printable(bytes(self._body))}", now_ns)
            return
        if _failed_with_200(self._exchange, document, now_ns):
            return
        if not _embeds(document) and not _choices(document):
            self._exchange.fail(GARBAGE, "The server's answer holds neither an embedding nor choices.", now_ns)
            return
        _take_usage(self._exchange, document, now_ns)
        self._exchange.counted_output = None if "data" in document else self._exchange.counted_output
        self._exchange.chunk_ns.append(now_ns)
        self._exchange.with_text.append(True)
        self._exchange.ended, self._exchange.end_ns = "done", now_ns


class RefusalReader:
    """An answer that was not requested: the failure's sentence. `content_type` is that of a status 200."""

    def __init__(self, exchange: Exchange, content_type: str = "") -> None:
        self._exchange, self._content_type = exchange, content_type
        self._body = bytearray()

    def feed(self, data: bytes, now_ns: int) -> None:
        """Keeps the beginning of the body."""
        self._body += data[: LONGEST_REFUSAL - len(self._body)]

    def close(self, now_ns: int) -> None:
        """Fails the exchange with the status and what the server says."""
        status = self._exchange.status
        if status == 200:
            self._fail_200(now_ns)
            return
        phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else "no status of HTTP"
        document = _object(bytes(self._body))
        message = _message(document) if document else _printable(bytes(self._body))
        if 300 <= status < 400:
            message = "it leads elsewhere, and redirects are not followed."
        sentence = f"The server answered {status} ({phrase}){': ' if message else '.'}{message}"
        self._exchange.fail(f"HTTP {status}", sentence, now_ns)

    def _fail_200(self, now_ns: int) -> None:
        document = _object(bytes(self._body))
        if document and _failed_with_200(self._exchange, document, now_ns):
            return
        given = f"with {self._content_type}" if self._content_type else "without a content type"
        self._exchange.fail(GARBAGE, f"The server answered {given}, not with a stream of events.", now_ns)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _failed_with_200(exchange: Exchange, document: dict[str, Any], now_ns: int) -> bool:
    """Fails the exchange where the document is an error, though the status was 200."""
    if _is_error(document):
        exchange.fail(IN_STREAM, f"The server answered 200 with an error: {_message(document)}", now_ns)
    return bool(exchange.error)


def _is_error(document: dict[str, Any]) -> bool:
    return bool(document.get("error")) or document.get("object") == "error"


def _embeds(document: dict[str, Any]) -> bool:
    data = document.get("data")
    return isinstance(data, list) and any(isinstance(entry, dict) and entry.get("embedding") for entry in data)


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _ids(choice: dict[str, Any], name: str) -> list[int]:
    """Token ids of a choice; none where it holds something else by that name."""
    ids = choice.get(name)
    return ids if isinstance(ids, list) and all(type(token_id) is int for token_id in ids) else []


def _take_usage(exchange: Exchange, document: dict[str, Any], now_ns: int) -> None:
    """Takes the server's counts where they may be: not many more tokens than asked for or come, and not 0."""
    usage = document.get("usage")
    if not isinstance(usage, dict):
        return
    prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is int and 0 <= prompt <= MAX_PROMPT_TOKENS:
        exchange.counted_prompt = prompt
    elif type(prompt) is int:
        exchange.fail(GARBAGE, f"The server counted {_printable(str(prompt).encode())} tokens in the prompt.", now_ns)
    planned, events = exchange.planned.output_tokens, len(exchange.chunk_ns)
    if type(output) is int and 0 < output <= max(planned, events) + MAX_SURPLUS_TOKENS:
        exchange.counted_output = output
    elif type(output) is int and output:
        counted = _printable(str(output).encode())
        sentence = f"The server counted {counted} tokens in {events:,} events; {planned:,} were asked for."
        exchange.fail(GARBAGE, sentence, now_ns)


def _message(document: dict[str, Any]) -> str:
    error = document.get("error") or document
    message = error.get("message", error.get("detail", "")) if isinstance(error, dict) else error
    return _printable(str(message).encode())


def _printable(text: bytes) -> str:
    words = " ".join(text[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace").split())
    shown = "".join(word if word.isprintable() else "�" for word in words)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + "…"
