"""What is said of addresses, and of servers that answer by other protocols than are expected of them."""

import asyncio
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kernels.load.answer import AnswerParser
from kernels.load.connection import Address, Connections
from kernels.load.exchange import Exchange
from kernels.load.planned import PlannedRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nContent-Type: %s\r\n%s\r\n%s"


def an_exchange() -> Exchange:
    return Exchange(PlannedRequest(0, None, 0.0, 16, 8), 0)


def a_document(body: bytes, kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    return OK % (len(body), kind, more, body)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (a_document(b'{"error": {"message": "too busy"}}'), "The server answered 200 with an error: too busy"),
        (a_document(b'{"choices": []}'), "The server answered with application/json, not with a stream of events."),
        (
            a_document(b"...", b"text/event-stream", b"Content-Encoding: gzip\r\n"),
            "The server compressed its answer (gzip), though it was told not to.",
        ),
        (
            b"\0\0\x06\x04\0\0\0\0\0" + b"\0\x03\0\0\0\x64",
            "The server speaks HTTP/2 only, and load is sent by HTTP/1.1. Give an address that takes HTTP/1.1.",
        ),
        (b"\x15\x03\x01\0\x02\x02\x46", "The server speaks TLS. Give its address with https."),
    ],
)
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
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(secret + made.sign(key, hashes.SHA256()).public_bytes(pem))
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
