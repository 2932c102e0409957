"""What a large body costs: a server of others must not look at all of what it refuses in the end."""

import asyncio
import gc
import json

import pytest
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from kernels.server.http.app import document_of
from kernels.server.http.chat_messages import Message
from kernels.server.http.embeddings import EmbeddingRequest
from kernels.server.http.errors import LONGEST_MESSAGE, ApiError
from kernels.server.http.schemas import ChatCompletionRequest, CompletionRequest
from kernels.server.scheduler.requests import prompt_too_long


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (CompletionRequest, {"prompt": [1.5] * 1000}), (CompletionRequest, {"prompt": [[1.5]] * 1000}),
        (CompletionRequest, {"prompt": [None] * 1000}), (EmbeddingRequest, {"input": [1.5] * 1000}),
        (ChatCompletionRequest, {"messages": [{}] * 1000}),
        (Message, {"role": "user", "content": [{"type": "text"}] * 1000}),
    ],
)  # fmt: skip
def test_checking_a_list_ends_at_its_first_mistake(kind: type[BaseModel], given: dict) -> None:
    with pytest.raises(ValidationError) as raised:
        kind.model_validate({"model": "m"} | given)
    assert raised.value.error_count() <= 2
    inner = raised.value.errors()[0].get("ctx", {}).get("error")
    if inner is not None:  # one for each kind that the field may be
        assert inner.__cause__.error_count() <= 4


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("n_predict", 5, None), ("do_sample", False, True), ("parameters", {"max_new_tokens": 5}, {}),
        ("length_penalty", 0.5, 1.0),
    ],
)  # fmt: skip
def test_a_field_of_another_server_is_refused_unless_it_changes_nothing(name, value, harmless):
    body = {"prompt": "a", "model": "m", "user": "ignored"}
    with pytest.raises(ApiError, match=f"^{name} is not served here") as raised:
        document(CompletionRequest, body | {name: value})
    assert raised.value.param == name
    assert document(CompletionRequest, body | {name: harmless}) == document(CompletionRequest, body)


def test_a_refused_field_is_told_by_its_name_here_and_completions_take_the_newer_one() -> None:
    with pytest.raises(ApiError, match=r"^max_new_tokens is not served here: its name here is max_tokens$"):
        document(
            ChatCompletionRequest, {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_new_tokens": 5}
        )
    with pytest.raises(ApiError, match=r"^input_type is not served here$"):
        document(EmbeddingRequest, {"model": "m", "input": "a", "input_type": "query"})
    request = document(CompletionRequest, {"model": "m", "prompt": "a", "max_tokens": 9, "max_completion_tokens": 3})
    assert request.tokens(budget=100) == 3


@pytest.mark.parametrize(("asked", "served"), [(0, 0), (1e-300, 0.01), (0.001, 0.01), (0.01, 0.01), (0.7, 0.7)])
def test_almost_greedy_is_the_least_temperature_that_is_drawn_with(asked: float, served: float) -> None:
    assert CompletionRequest.model_validate({"model": "m", "prompt": "a", "temperature": asked}).temperature == served


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (CompletionRequest, {"prompt": [1, *[None] * 8]},
         "8 tokens, which the prompt of 9 and the answer of 1 tokens together exceed"),
        (CompletionRequest, {"prompt": ["a", [None] * 9], "max_tokens": 3},
         "8 tokens, which the prompt of 9 and the answer of 3 tokens"),
        (EmbeddingRequest, {"input": [[None] * 9]}, "8 tokens, which a text of 9 tokens exceeds"),
    ],
)  # fmt: skip
def test_no_id_of_a_list_beyond_the_context_is_looked_at(kind: type[BaseModel], given: dict, said: str) -> None:
    """None is no id, which is not said."""
    with pytest.raises(ApiError) as raised:
        document(kind, {"model": "m"} | given)
    assert said in raised.value.message
    assert raised.value.code == "context_length_exceeded"


def document(kind: type[BaseModel], given: dict) -> BaseModel:
    """What the server of a context of 8 tokens makes of a body."""

    async def receive() -> dict:
        return {"type": "http.request", "body": json.dumps(given).encode()}

    return asyncio.run(document_of(Request({"type": "http", "headers": []}, receive), kind, 8))


def test_no_collection_looks_at_a_body_while_it_is_read() -> None:
    """A collection looks at all that the body has made so far, and a million lists made it run often."""
    seen: list[str] = []

    def collected(phase: str, info: dict) -> None:
        seen.append(phase)

    gc.callbacks.append(collected)
    try:
        with pytest.raises(ApiError):
            document(CompletionRequest, {"model": "m", "prompt": [[1]] * 200_000})
    finally:
        gc.callbacks.remove(collected)
    assert len(seen) <= 4


def test_what_an_assistant_says_of_no_call_is_taken() -> None:
    """As OpenAI's own client sends an answer back, whose empty fields change nothing."""
    empty = {"tool_calls": None, "function_call": None, "refusal": None, "audio": None, "annotations": []}
    result = Message.model_validate({"role": "assistant", "content": None} | empty)
    assert result.document == {"role": "assistant", "content": ""}
    assert Message.model_validate({"role": "user", "content": "a", "name": "Ann"}).document["name"] == "Ann"


@pytest.mark.parametrize("error", [ApiError(400, "a" * 10_000_000), ApiError(400, prompt_too_long(1, 10**4000, 8))])
def test_an_error_repeats_no_more_than_a_part_of_a_request(error: ApiError) -> None:
    assert len(error.document["error"]["message"]) == LONGEST_MESSAGE
    assert error.document["error"]["message"].endswith("…")
