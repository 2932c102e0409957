"""The server in a process of its own, asked over HTTP as OpenAI's clients ask."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import torch

from kernels import runners
from kernels.load import sockets
from kernels.server.http.text import text_of
from tests.kernels.server.bad_requests import BAD_REQUESTS
from tests.kernels.server.conftest import LONG, MODEL, engine_of, metric, ready, until
from tests.openai_package import PACKAGES

CONFIG = json.loads((MODEL / "config.json").read_text())
PROMPT, TOKENS = "The for statement is used to", 12
GREEDY = {"model": "voice-agent", "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def expected() -> tuple[list[int], str]:
    """The runner's own answer to PROMPT: its ids and their text."""
    text = text_of(MODEL, CONFIG)
    model = runners.load(MODEL, CONFIG, dtype="fp32", device="cpu")
    ids = runners.runner("kernels", model).generate(torch.tensor([text.encode(PROMPT)]), TOKENS).tokens[0]
    return ids, text.decode(ids)


@pytest.fixture(scope="module")
def reference(expected) -> list[list[float]]:
    """The log probabilities [token][vocabulary] of transformers' model where it makes that answer."""
    ids = text_of(MODEL, CONFIG).encode(PROMPT) + expected[0]
    runner = runners.runner("eager", runners.load(MODEL, CONFIG, dtype="fp32", device="cpu"))
    return runner.logits(torch.tensor([ids]))[0, -TOKENS - 1 : -1].log_softmax(-1).tolist()


def events(api: httpx.Client, path: str, asked: dict) -> list[dict]:
    with api.stream("POST", path, json=asked | {"stream": True}) as response:
        assert response.status_code == 200
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_completion_is_the_runners_answer_with_its_counts(api: httpx.Client, expected) -> None:
    ids, text = expected
    asked = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS, "return_token_ids": True}
    result = api.post("/v1/completions", json=asked).json()
    choice, prompt = result["choices"][0], text_of(MODEL, CONFIG).encode(PROMPT)
    assert (choice["prompt_token_ids"], choice["token_ids"], choice["text"]) == (prompt, ids, text)
    assert choice["finish_reason"] == "length"
    counts = {"prompt_tokens": len(prompt), "completion_tokens": TOKENS, "total_tokens": len(prompt) + TOKENS}
    assert {**result["usage"], "prompt_tokens_details": None} == counts | {"prompt_tokens_details": None}


def test_without_a_limit_a_completion_has_16_tokens_or_what_the_context_has_room_for(api: httpx.Client) -> None:
    asked = GREEDY | {"prompt": [[5] * 20, [5] * 120, [5] * 127], "return_token_ids": True}
    choices = api.post("/v1/completions", json=asked).json()["choices"]
    assert [len(choice["token_ids"]) for choice in choices] == [16, 8, 1]  # of 128
    refused = api.post("/v1/completions", json=GREEDY | {"prompt": [5] * 128})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "prompt")


def test_streams_add_up_to_the_same_answer_beside_others(api: httpx.Client, expected) -> None:
    _, text = expected
    asked = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS, "stream_options": {"include_usage": True}}
    other = {"model": "voice-agent", "prompt": [5] * 40, "max_tokens": 30, "seed": 1}
    with ThreadPoolExecutor(6) as pool:
        others = [pool.submit(api.post, "/v1/completions", json=other) for _ in range(4)]
        streams = [pool.submit(events, api, "/v1/completions", asked) for _ in range(2)]
    for stream in streams:
        result = stream.result()
        assert "".join(choice["text"] for event in result for choice in event["choices"]) == text
        assert result[-1]["usage"]["completion_tokens"] == TOKENS
        assert result[-2]["choices"][0]["finish_reason"] == "length"
    answers = {item.result().json()["choices"][0]["text"] for item in others}
    assert len(answers) == 1, "one seed gives one answer"


def test_texts_and_chats_become_ids_and_back(api: httpx.Client) -> None:
    """As vLLM's clients ask: without a model's name, for texts longer than the context as well."""
    text, long = text_of(MODEL, CONFIG), PROMPT * 100
    for asked, ids in (
        ({"prompt": long}, text.encode(long)),
        ({"messages": [{"role": "user", "content": PROMPT}]}, text.chat([{"role": "user", "content": PROMPT}])),
    ):
        result = api.post("/tokenize", json=asked | {"return_token_strs": True, "chat_template_kwargs": None}).json()
        assert (result["tokens"], result["count"], result["max_model_len"]) == (ids, len(ids), 128)
        back = api.post("/detokenize", json={"model": "voice-agent", "tokens": ids}).json()["prompt"]
        assert back == "".join(result["token_strs"])
    for path, wrong, said in (
        ("/tokenize", {}, "the body: it must have either a prompt or messages"),
        (
            "/tokenize",
            {"messages": [{"role": "user", "content": "a", "name": "Ann"}]},
            "messages: this model has no chat",
        ),
        ("/tokenize", {"prompt": "a", "add_generation_prompt": False}, "add_generation_prompt is not served here"),
        ("/detokenize", {"tokens": [4096]}, "tokens: an id lies outside of the vocabulary"),
    ):
        refused = api.post(path, json=wrong)
        assert (refused.status_code, refused.json()["error"]["message"].startswith(said)) == (400, True)


def test_a_chat_streams_and_a_stop_text_ends_it(api: httpx.Client) -> None:
    asked = GREEDY | {"messages": [{"role": "user", "content": "What is a list?"}], "max_tokens": 20}
    whole = api.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]
    assert whole["role"] == "assistant"
    stop = whole["content"][6:10]
    result = events(api, "/v1/chat/completions", asked | {"stop": stop})
    assert result[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(event["choices"][0]["delta"]["content"] for event in result)
    assert text == whole["content"][: whole["content"].index(stop)]
    assert result[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_token_of_the_request_ends_the_answer(api: httpx.Client, expected) -> None:
    ids, _ = expected
    asked = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS, "stop_token_ids": [ids[5]], "return_token_ids": True}
    choice = api.post("/v1/completions", json=asked).json()["choices"][0]
    end = ids.index(ids[5])
    assert (choice["finish_reason"], choice["token_ids"]) == ("stop", ids[: end + 1])
    assert choice["text"] == text_of(MODEL, CONFIG).decode(ids[:end])
    assert api.post("/v1/completions", json=asked | {"min_tokens": 9}).status_code == 400


def test_log_probabilities_are_the_references_whole_and_streamed(api: httpx.Client, expected, reference) -> None:
    """A stop text cuts them as it cuts the text. A request beside it that asks for none gets its answer and none."""
    ids, text = expected
    plain = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS}
    asked = plain | {"logprobs": 2, "n": 2, "stop": text[-6:]}
    with ThreadPoolExecutor(2) as pool:
        silent, whole = pool.map(lambda body: api.post("/v1/completions", json=body).json()["choices"], (plain, asked))
    assert (silent[0]["text"], silent[0]["logprobs"]) == (text, None)
    streamed = [event["choices"][0] for event in events(api, "/v1/completions", asked | {"n": 1})]
    joined = {name: [entry for item in streamed for entry in item["logprobs"][name]] for name in whole[0]["logprobs"]}
    for result in (joined, whole[0]["logprobs"], whole[1]["logprobs"]):
        kept = len(result["tokens"])
        assert result["text_offset"] == [len("".join(result["tokens"][:at])) for at in range(kept)]
        assert result["text_offset"][-1] < len(whole[0]["text"]) <= len("".join(result["tokens"]))
        own = [row[token] for row, token in zip(reference, ids, strict=True)][:kept]
        assert result["token_logprobs"] == pytest.approx(own, abs=1e-4)
        assert [max(top.values()) for top in result["top_logprobs"]] == pytest.approx(own, abs=1e-4)
        assert {len(top) for top in result["top_logprobs"]} == {2}


@pytest.mark.parametrize("most", [0, 1])
def test_a_repeated_prompt_has_its_log_probabilities(api: httpx.Client, expected, reference, most: int) -> None:
    """As lm-eval asks for the likelihood of a continuation, of several prompts at once, and streamed."""
    ids, answer = expected
    text = text_of(MODEL, CONFIG)
    prompt = text.encode(PROMPT) + ids
    asked = GREEDY | {"prompt": [prompt, prompt[:1]], "max_tokens": most, "logprobs": 1, "echo": True}
    whole = api.post("/v1/completions", json=asked).json()
    result, short = whole["choices"]
    assert (result["text"].startswith(PROMPT + answer), result["finish_reason"]) == (True, "length")
    assert whole["usage"]["completion_tokens"] == 2 * most
    logprobs = result["logprobs"]
    own = [row[token] for row, token in zip(reference, ids, strict=True)]
    assert logprobs["token_logprobs"][len(prompt) - TOKENS : len(prompt)] == pytest.approx(own, abs=1e-4)
    assert (logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]) == (None, None)
    for at, (token, top) in enumerate(zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)):
        assert not at or token <= max(top.values())
    assert logprobs["text_offset"] == [len(text.decode(prompt[:at])) for at in range(len(prompt) + most)]
    assert len(short["logprobs"]["tokens"]) == 1 + most
    stream = [event["choices"][0] for event in events(api, "/v1/completions", asked | {"prompt": PROMPT + answer})]
    assert "".join(choice["text"] for choice in stream).startswith(PROMPT + answer)
    plain = api.post("/v1/completions", json=asked | {"prompt": PROMPT, "logprobs": None}).json()["choices"][0]
    assert (plain["text"].startswith(PROMPT), plain["logprobs"]) == (True, None)
    special = GREEDY | {"prompt": [0, *prompt], "max_tokens": 0, "echo": True, "skip_special_tokens": False}
    assert api.post("/v1/completions", json=special).json()["choices"][0]["text"] == "<|end|>" + text.decode(prompt)


KINDS = {"kind": {"enum": ["list", "set"]}, "sizes": {"type": "array", "items": {"enum": [1, 20]}, "maxItems": 3}}
SCHEMA = {"type": "object", "properties": KINDS, "required": ["kind", "sizes"], "additionalProperties": False}


@pytest.mark.parametrize(
    "field",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "collection", "schema": SCHEMA}}},
        {"structured_outputs": {"json": SCHEMA}},
        {"guided_json": json.dumps(SCHEMA)},
    ],
)
def test_an_answer_follows_its_json_schema_whole_and_streamed(api: httpx.Client, field: dict) -> None:
    """It ends with the last character, also where no token may stop it, and its tokens are counted."""
    asked = {"model": "voice-agent", "messages": [{"role": "user", "content": PROMPT}], "seed": 2, "ignore_eos": True}
    asked |= field | {"logit_bias": {str(item): -100 for item in text_of(MODEL, CONFIG).encode(" \n")}}
    whole = api.post("/v1/chat/completions", json=asked).json()["choices"][0]
    document = json.loads(whole["message"]["content"])
    assert (document.keys(), whole["finish_reason"]) == (SCHEMA["properties"].keys(), "stop")
    stream = events(api, "/v1/chat/completions", asked)
    assert "".join(event["choices"][0]["delta"]["content"] for event in stream) == whole["message"]["content"]
    assert stream[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_grammar_that_cannot_be_followed_is_refused_and_others_go_on(api: httpx.Client) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "text"}}}
    for stream in (False, True):
        result = api.post(
            "/v1/completions", json=GREEDY | {"prompt": PROMPT, "response_format": schema, "stream": stream}
        )
        error = result.json()["error"]
        assert (result.status_code, error["param"]) == (400, "response_format")
        assert error["message"] == "response_format: Invalid type: text"


def test_a_bias_and_a_penalty_change_the_answer(api: httpx.Client, expected) -> None:
    ids, _ = expected
    asked = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS, "return_token_ids": True}
    for change in ({"logit_bias": {str(ids[0]): -100}}, {"repetition_penalty": 100}, {"presence_penalty": 2}):
        assert api.post("/v1/completions", json=asked | change).json()["choices"][0]["token_ids"] != ids


def test_openais_own_client_gets_what_it_asks_for(api: httpx.Client) -> None:
    calls = Path(__file__).parents[3] / "benchmarks" / "openai_calls.py"
    environment = os.environ | {"PYTHONPATH": str(PACKAGES), "OPENAI_API_KEY": "secret"}
    url = str(api.base_url).rstrip("/")
    done = subprocess.run([sys.executable, calls, url], env=environment, capture_output=True, check=True, timeout=300)
    result = json.loads(done.stdout)
    assert (result["errors"], result["answered"]) == ([], 11)


def test_a_response_is_the_answer_of_its_chat_whole_and_as_events(api: httpx.Client) -> None:
    system, user = ({"role": role, "content": PROMPT} for role in ("system", "user"))
    chat = {"model": "voice-agent", "temperature": 0, "messages": [system, user], "max_tokens": 8}
    expected = api.post("/v1/chat/completions", json=chat).json()
    part = {"type": "input_text", "text": PROMPT}
    asked = {"model": "voice-agent", "temperature": 0, "instructions": PROMPT, "max_output_tokens": 8}
    harmless = {"n": 1, "stop": None, "parallel_tool_calls": False, "stream_options": {"include_obfuscation": False}}
    for given in (PROMPT, [{"role": "user", "content": [part]}]):
        result = api.post("/v1/responses", json=asked | harmless | {"input": given}).json()
        (message,) = result["output"]
        assert message["content"][0]["text"] == expected["choices"][0]["message"]["content"]
        assert (result["status"], result["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert result["usage"]["total_tokens"] == expected["usage"]["total_tokens"]
    stream = api.post("/v1/responses", json=asked | {"input": PROMPT, "stream": True}).text
    events = [json.loads(item) for item in re.findall("^data: (.*)$", stream, re.MULTILINE)]
    assert [item["type"] for item in events] == re.findall("^event: (.*)$", stream, re.MULTILINE)
    assert [item["sequence_number"] for item in events] == list(range(len(events)))
    deltas = [item["delta"] for item in events if item["type"] == "response.output_text.delta"]
    assert "".join(deltas) == message["content"][0]["text"] == events[-1]["response"]["output"][0]["content"][0]["text"]
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.incomplete")
    for field, said in (
        ({"tools": [{"type": "web_search"}]}, "tools is not served here"),
        ({"previous_response_id": "resp_1"}, "previous_response_id is not served here"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format: its schema is missing"),
        ({"temperature": 200}, "temperature: 200.0 is neither 0 nor in"),
        ({"max_tokens": 8}, "max_tokens is not served here"),
        ({"stop_token_ids": [5]}, "stop_token_ids is not served here"),
    ):
        refused = api.post("/v1/responses", json=asked | {"input": PROMPT} | field)
        assert (refused.status_code, refused.json()["error"]["message"].startswith(said)) == (400, True)


def test_choices_of_one_seed_differ_and_come_back(api: httpx.Client) -> None:
    asked = {"model": "voice-agent", "prompt": [PROMPT, "A list"], "max_tokens": 6, "n": 2, "seed": 3, "top_k": 50}
    first, second = (api.post("/v1/completions", json=asked).json() for _ in range(2))
    assert [item["index"] for item in first["choices"]] == [0, 1, 2, 3]
    texts = [item["text"] for item in first["choices"]]
    assert len(set(texts)) == 4
    assert texts == [item["text"] for item in second["choices"]]


@pytest.mark.parametrize(("body", "status", "said"), BAD_REQUESTS, ids=[said for _, _, said in BAD_REQUESTS])
def test_bad_requests_get_a_sentence_in_openais_shape(api: httpx.Client, body: bytes, status: int, said: str) -> None:
    result = api.post("/v1/chat/completions" if b"messages" in body else "/v1/completions", content=body)
    assert result.status_code == status
    error = result.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]
    assert "\n" not in error["message"]


def test_numbers_beyond_every_vocabulary_are_served_and_end_no_engine(api: httpx.Client) -> None:
    asked = {"model": "voice-agent", "prompt": "a", "max_tokens": 1, "top_k": 10**30, "seed": -(10**30)}
    assert api.post("/v1/completions", json=asked | {"min_tokens": 1, "ignore_eos": True}).status_code == 200
    for how in (
        {"temperature": 1e-300},
        {"temperature": 0.01},
        {"temperature": 100},
        {"top_p": 1e-300},
        {"top_p": 1 - 1e-12},
    ):  # in float32
        assert api.post("/v1/completions", json=asked | how).status_code == 200
    assert metric(api, "engine_restarts_total") == 0


def test_other_methods_and_addresses_get_the_same_shape(api: httpx.Client) -> None:
    refused = api.options("/v1/completions")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    for path in ("/v1/completions/", "/favicon.ico", "/" + "a" * 5000):
        result = api.post(path, content=b"{}")
        assert result.status_code == 404
        assert len(result.json()["error"]["message"]) < 200
    with socket.create_connection((api.base_url.host, api.base_url.port), 300) as huge:
        huge.sendall(posted({}).replace(b"Content-Length: 2", b"Content-Length: 99999999999"))  # its end never comes
        assert b" 413 " in huge.recv(4096)


def test_the_key_is_asked_for_and_models_are_listed(api: httpx.Client) -> None:
    refused = api.get("/v1/models", headers={"Authorization": "Bearer other"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert api.get("/v1/models", headers={"Authorization": "bearer secret"}).status_code == 200
    card = api.get("/v1/models").json()["data"][0]
    assert (card["id"], card["max_model_len"]) == ("voice-agent", 128)
    assert api.get("/v1/models/other/name").json()["error"]["code"] == "model_not_found"
    metrics = api.get("/metrics").text
    assert "other/name" not in metrics
    phases = re.findall(r'^serve_start_seconds\{phase="(\w+)"\} \d', metrics, re.MULTILINE)
    assert phases == ["process", "imports", "device", "weights", "compile", "graphs", "megakernel", "other"]
    assert api.get("/v1/nothing").json()["error"]["message"] == "there is no /v1/nothing here"


def test_a_client_that_goes_away_frees_its_pages(api: httpx.Client) -> None:
    before, steps = metric(api, "generated_tokens_total"), metric(api, "steps_total")
    with api.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as response:
        next(response.iter_lines())
    until(lambda: metric(api, "steps_total") > steps)  # the engine reports from time to time
    until(lambda: metric(api, "running_requests") + metric(api, "waiting_requests") == 0)
    assert metric(api, "generated_tokens_total") - before < LONG["n"] * LONG["max_tokens"]
    assert metric(api, "free_kv_pages") == metric(api, "kv_pages")


def test_a_stream_whose_client_goes_away_before_its_first_token_leaves_the_line(api: httpx.Client) -> None:
    def gone() -> bool:
        return 'serve_requests_total{path="/v1/completions",status="499"}' in api.get("/metrics").text

    assert not gone()
    last = metric(api, "generated_tokens_total") + LONG["n"] * LONG["max_tokens"]
    with api.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as others:
        lines = others.iter_lines()  # the stream ends with them
        next(lines)
        asked = metric(api, "prompt_tokens_total")
        with socket.create_connection((api.base_url.host, api.base_url.port)) as connection:
            connection.sendall(posted(GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS, "stream": True}))
            until(lambda: metric(api, "prompt_tokens_total") > asked)  # it is behind all of the others
        until(lambda: gone() or metric(api, "generated_tokens_total") >= last)
        assert gone()
    until(lambda: metric(api, "running_requests") + metric(api, "waiting_requests") == 0)


def posted(body: dict) -> bytes:
    """A request as it goes over the wire."""
    content = json.dumps(body).encode()
    head = ["POST /v1/completions HTTP/1.1", "Host: x", f"Content-Length: {len(content)}", "Connection: close"]
    return "\r\n".join([*head, "Authorization: Bearer secret", "", ""]).encode() + content


def test_a_thousand_connections_are_all_answered(api: httpx.Client) -> None:
    sockets.allow(4096)
    request = posted(GREEDY | {"prompt": [5, 6, 7], "max_tokens": 1})

    async def ask(opened: asyncio.Barrier) -> bytes:
        reader, writer = await asyncio.open_connection(api.base_url.host, api.base_url.port)
        await opened.wait()  # all of them are open at once
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer

    async def all_of_them() -> list[bytes]:
        opened = asyncio.Barrier(1000)
        return await asyncio.gather(*(ask(opened) for _ in range(1000)))

    answers = asyncio.run(all_of_them())
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    texts = {json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"] for answer in answers}
    assert len(texts) == 1


def test_a_client_that_does_not_read_keeps_nobody_waiting_and_loses_nothing(api: httpx.Client) -> None:
    before = metric(api, "steps_total")
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(300)
        slow.connect((api.base_url.host, api.base_url.port))
        slow.sendall(posted(LONG | {"n": 8, "stream": True, "return_token_ids": True}))
        until(lambda: metric(api, "steps_total") >= before + 200)  # eight answers of 100 tokens, four at once
        until(lambda: metric(api, "running_requests") + metric(api, "waiting_requests") == 0)
        whole = api.post("/v1/completions", json=GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS}).json()
        assert whole["usage"]["completion_tokens"] == TOKENS
        result = b"".join(iter(lambda: slow.recv(65536), b""))
    events = [json.loads(item) for item in re.findall(rb"^data: (\{.*\})\r?$", result, re.MULTILINE)]
    assert sum(len(choice["token_ids"]) for item in events for choice in item["choices"]) == 8 * 100
    assert b"data: [DONE]" in result


def test_a_killed_engine_gives_clean_errors_and_comes_back(server, expected) -> None:
    api, process = server
    asked = GREEDY | {"prompt": PROMPT, "max_tokens": TOKENS}
    with ThreadPoolExecutor(1) as pool, api.stream("POST", "/v1/completions", json=LONG | {"stream": True}) as stream:
        lines = stream.iter_lines()
        next(lines)
        whole = pool.submit(api.post, "/v1/completions", json=LONG)
        until(lambda: metric(api, "waiting_requests") > LONG["n"])
        before = metric(api, "steps_total")
        os.kill(engine_of(process), signal.SIGKILL)
        *_, last, done = (line.removeprefix("data: ") for line in lines if line)
    assert "died" in json.loads(last)["error"]["message"]
    assert done == "[DONE]"
    assert whole.result().status_code == 500
    assert "died" in whole.result().json()["error"]["message"]
    refused = api.post("/v1/completions", json=asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_not_ready")
    assert metric(api, "steps_total") >= before, "a counter never falls"
    until(lambda: ready(api))
    again = api.post("/v1/completions", json=asked).json()
    assert again["choices"][0]["text"] == expected[1]
    assert metric(api, "engine_restarts_total") == 1
