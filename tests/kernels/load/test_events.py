"""What a server may make a load generator keep, and believe."""

import asyncio
import base64
import json
import socket
import ssl
import string
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kernels.load.answer import AnswerParser
from kernels.load.connection import Address, Connections
from kernels.load.events import LONGEST_DOCUMENT, LONGEST_REFUSAL, DocumentReader, EventReader, RefusalReader
from kernels.load.exchange import Exchange
from kernels.load.planned import PlannedRequest
from kernels.load.secrecy import without_key
from kernels.load.server_process import reserve_port


def an_exchange(tokens: int = 8) -> Exchange:
    return Exchange(PlannedRequest(0, None, 0.0, 16, tokens), 0)


def test_an_endless_document_ends_the_request_and_an_endless_refusal_is_cut():
    document, refusal = an_exchange(), an_exchange()
    reader, refused = DocumentReader(document), RefusalReader(refusal)
    for _ in range(LONGEST_DOCUMENT // 2**20 + 1):
        reader.feed(b"[" * 2**20, 1)
        refused.feed(b"[" * 2**20, 1)
    assert document.sentence == "The answer is larger than 4,194,304 bytes."
    assert len(refused._body) == LONGEST_REFUSAL
    refusal.status = 503
    refused.close(1)
    assert refusal.sentence.startswith("The server answered 503 (Service Unavailable): [[[")


@pytest.mark.parametrize(("counted", "kept"), [(8, 8), (11, 11), (10**9, None), (-1, None), ("8", None), (0, None)])
def test_a_count_is_believed_where_an_answer_may_have_as_many_tokens(counted, kept):
    exchange = an_exchange(tokens=8)
    events = [
        {"choices": [{"text": "a"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": counted}},
    ]
    reader = EventReader(exchange)
    for event in events:
        reader.feed(f"data: {json.dumps(event)}\n\n".encode(), 5)
    assert exchange.counted_output == kept
    assert bool(exchange.error) == (kept is None and counted not in ("8", 0))
    assert len(exchange.token_ns) <= 11


@pytest.mark.parametrize("counted", [-3, 10**400])
def test_a_prompt_of_absurd_length_is_a_failure(counted):
    exchange = an_exchange()
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": counted, "completion_tokens": 8}})
    EventReader(exchange).feed(f"data: {usage}\n\n".encode(), 5)
    assert exchange.counted_prompt is None
    assert exchange.sentence.startswith(f"The server counted {str(counted)[:200]}")
    assert len(exchange.sentence) < 300


@pytest.mark.parametrize(
    ("data", "kept"), [([{"embedding": [0.5, 0.0]}], True), ([{"embedding": []}], False), ([], False), ("text", False)]
)
def test_an_answer_without_an_embedding_is_none(data, kept):
    exchange = an_exchange()
    reader = DocumentReader(exchange)
    reader.feed(json.dumps({"data": data, "usage": {"prompt_tokens": 3}}).encode(), 5)
    reader.close(5)
    assert (exchange.ended == "done", exchange.error == "garbage") == (kept, not kept)


def piece(text: str, **kwargs: object) -> str:
    return json.dumps({"choices": [{"text": text} | kwargs]})


USAGE = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}})
LAST = piece("c", finish_reason="length")
TWO_LINES = LAST.replace(": ", ":\ndata: ", 1)


@pytest.mark.parametrize(
    "stream",
    [
        f"data: {piece('a')}\r\rdata: {piece('b')}\r\rdata: {LAST}\r\rdata: {USAGE}\r\rdata: [DONE]\r\r",
        f"data: {piece('a')}\r\n\r\ndata: {piece('b')}\r\n\r\ndata: {LAST}\r\n\r\ndata: {USAGE}\r\n\r\n",
        f"\ufeffdata: {piece('a')}\n\ndata: {piece('b')}\n\ndata: {TWO_LINES}\n\ndata: {USAGE}\n\n",
        f"\ufeff: hello\nretry: 9\n\ndata:\n\ndata:{piece('a')}\n\ndata:{piece('b')}\ndata:{LAST}\ndata:{USAGE}",
    ],
    ids=["CR", "CRLF", "a BOM, and an event of two lines", "no blank lines between events"],
)
@pytest.mark.parametrize("cut", [1, 7, 10**6])
def test_events_are_read_however_their_lines_end(stream, cut):
    exchange, sent = an_exchange(tokens=3), f"{stream}\n".encode()
    reader = EventReader(exchange)
    for at in range(0, len(sent), cut):
        reader.feed(sent[at : at + cut], at + 1)
    reader.close(len(sent))
    assert (exchange.error, exchange.ended, exchange.counted_output) == ("", "length", 3)
    assert len(exchange.token_ns) == 3


def answered(*documents: str, tokens: int = 8) -> Exchange:
    """A stream of which each document comes a nanosecond after the one before it."""
    exchange = an_exchange(tokens)
    reader = EventReader(exchange)
    for at, document in enumerate(documents, start=1):
        reader.feed(f"data: {document}\n\n".encode(), at)
    reader.close(len(documents) + 1)
    return exchange


def test_text_is_believed_before_a_count_of_0_and_an_event_without_text_may_be_no_token():
    none = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}})
    for documents in ([none, piece("a"), piece("b"), LAST], [piece("a"), piece("b"), LAST, none]):
        exchange = answered(*documents)
        assert (exchange.ended, exchange.tokens, exchange.counted_output) == ("length", 3, None)
    assert answered(piece("", finish_reason="stop"), none).error == "no token"
    many = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 8}})
    assert answered(piece(""), piece("a a a a"), LAST, many).token_ns[0] == 2
    each = answered(piece(""), piece("ab"), LAST, USAGE)  # the first token is half of a character
    assert each.token_ns == [1, 2, 3]
    called = json.dumps({"error": None, "choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{"}}]}}]})
    assert answered(called, called, LAST).tokens == 3
    broken = answered(called, json.dumps({"object": "error", "message": "out of memory"}))
    assert broken.sentence == "The server broke off with an error: out of memory"


OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: %s\r\n%s\r\n%s"


def a_document(body: bytes, kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    return OK % (len(body), kind, more, body)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (a_document(b'{"error": {"message": "too busy"}}'), "The server answered 200 with an error: too busy"),
        (a_document(b'{"choices": []}'), "The server answered with application/json, not with a stream of events."),
        (a_document(b"...", b"text/event-stream", b"Content-Encoding: gzip\r\n"),
         "The server compressed its answer (gzip), though it was told not to."),
        (b"\0\0\x06\x04\0\0\0\0\0" + b"\0\x03\0\0\0\x64",
         "The server speaks HTTP/2 only, and load is sent by HTTP/1.1. Give an address that takes HTTP/1.1."),
        (b"\x15\x03\x01\0\x02\x02\x46", "The server speaks TLS. Give its address with https."),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_stream_of_events_is_a_sentence(data, sentence):
    exchange = an_exchange()
    assert AnswerParser(exchange, streamed=True).feed(data, 5)
    assert exchange.sentence == sentence


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://models.example", "/v1"),
        ("http://models.example/api/v3", "/api/v3"),
        ("https://models.example/v1beta/openai/", "/v1beta/openai"),
        ("https://models.example/v1/chat/completions", "/v1"),
    ],
)
def test_a_path_is_taken_as_it_is(url, base):
    assert Address.parse(url).base == base


def a_certificate(folder) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.now(UTC), timedelta(days=1)
    certificate = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(secret + certificate.sign(key, hashes.SHA256()).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (True, "its certificate is not trusted (self-signed certificate); SSL_CERT_FILE names a file of trusted ones"),
        (False, "it does not speak TLS; give its address with http"),
    ],
)
def test_why_a_server_of_tls_cannot_be_reached(tmp_path, tls, reason):
    async def sentence() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=a_certificate(tmp_path) if tls else None)
        port, exchange = server.sockets[0].getsockname()[1], an_exchange()
        exchange.intended_ns = time.monotonic_ns()
        async with server:
            address = Address.parse(f"https://127.0.0.1:{port}")
            await Connections(address).send("/completions", b"{}", True, exchange, 60)
        return exchange.sentence

    assert asyncio.run(sentence()).endswith(f" cannot be reached: {reason}.")


KEY = "sk-proj-Tq7+Vx/0Zb9_mN4wRk2LpE8s"
ENCODED = {
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64url": base64.urlsafe_b64encode(KEY.encode()).decode(),
    "base64 of the header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "base64 of name and password": base64.b64encode(f":{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "a URL": quote(KEY, safe=""),
}
OF_BEARER = "QmVhcmVyIH"
"""How base64 of the header begins, whatever the key."""
SAID = {
    "whole": KEY, "first 12": KEY[:12], "last 12": KEY[-12:], "first and last 4": f"{KEY[:4]}****{KEY[-4:]}",
    "the middle": KEY[9:17], "backwards": KEY[::-1], "in two halves": f"{KEY[:16]} {KEY[16:]}", **ENCODED,
}  # fmt: skip


@pytest.mark.parametrize("how", SAID)
def test_no_part_of_the_key_is_left(how: str) -> None:
    shown = without_key(f"Incorrect API key: {SAID[how]}. Look at the manual.", KEY)
    assert shown.startswith("Incorrect API key: ")
    assert shown.endswith("Look at the manual.")
    left = shown.removeprefix("Incorrect API key: ").removesuffix(" Look at the manual.").removeprefix(OF_BEARER)
    assert "…" in left
    assert len("".join(item for item in left if item in string.ascii_letters + string.digits)) <= 2, left


def test_a_short_key_is_hidden_as_a_whole_and_without_one_a_sentence_stays() -> None:
    assert without_key("no such key: ab", "ab") == "no such key: …"
    assert without_key("The server answered 429: Slow down", "") == "The server answered 429: Slow down"


def test_a_reserved_port_is_for_servers_that_name_it_and_nobody_else() -> None:
    port = reserve_port()
    with socket.socket() as another, pytest.raises(OSError, match="Address already in use"):
        another.bind(("127.0.0.1", port))
    for options in ([socket.SO_REUSEADDR], [socket.SO_REUSEADDR, socket.SO_REUSEPORT]):  # as uvicorn, and as vLLM
        with socket.socket() as server:
            for option in options:
                server.setsockopt(socket.SOL_SOCKET, option, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                server.accept()[0].close()
