"""What a server may make a load generator keep, and believe."""

import json

import pytest

from kernels.load.events import LONGEST_DOCUMENT, LONGEST_REFUSAL, DocumentReader, EventReader, RefusalReader
from kernels.load.exchange import Exchange
from kernels.load.planned import PlannedRequest


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


def piece(text: str, **more: object) -> str:
    return json.dumps({"choices": [{"text": text} | more]})


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


def test_text_that_came_is_believed_before_a_count_of_0():
    none = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}})
    for documents in ([none, piece("a"), piece("b"), LAST], [piece("a"), piece("b"), LAST, none]):
        exchange = answered(*documents)
        assert (exchange.ended, exchange.tokens, exchange.counted_output) == ("length", 3, None)
    assert answered(piece("", finish_reason="stop"), none).error == "no token"


def test_an_event_without_text_is_no_token_where_others_have_several():
    many = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 8}})
    assert answered(piece(""), piece("a a a a"), LAST, many).token_ns[0] == 2
    each = answered(piece(""), piece("ab"), LAST, USAGE)  # the first token is half of a character
    assert each.token_ns == [1, 2, 3]


def test_the_arguments_of_a_call_are_tokens_and_an_error_of_null_is_none():
    called = json.dumps({"error": None, "choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{"}}]}}]})
    assert answered(called, called, LAST).tokens == 3
    broken = answered(called, json.dumps({"object": "error", "message": "out of memory"}))
    assert broken.sentence == "The server broke off with an error: out of memory"
