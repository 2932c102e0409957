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


@pytest.mark.parametrize(("counted", "kept"), [(8, 8), (11, 11), (10**9, None), (-1, None), ("8", None)])
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
    assert bool(exchange.error) == (kept is None and counted != "8")
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
