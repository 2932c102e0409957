"""What the application answers beside an engine of this process, which answers at once."""

import asyncio
import gzip
from typing import Any

import httpx
import pytest

from kernels.cli.serve import KEY_VARIABLE, _key
from kernels.server.http.app import Server
from kernels.server.http.client import EngineClient
from kernels.server.http.engine_state import EngineState
from kernels.server.http.text import ByteText
from kernels.server.messages import AddRequest, EngineOutputs, EngineReport, Ready
from kernels.server.processes.web_process import WebSpec
from kernels.server.spec import Spec

BODY = {"model": "m", "prompt": "a", "max_tokens": 1}
ORIGIN = "https://chat.example.org"


def answers(*requests: dict[str, Any], ready: bool = True, **kwargs: Any) -> list[httpx.Response]:
    """The answers to requests, by their `method`, `url` and what httpx takes beside them."""

    def engine(message: Any) -> None:
        """Each answer is one token; 96 tokens of each prompt come from the prefix cache."""
        if isinstance(message, AddRequest):
            client.received(EngineOutputs(tokens=[(message.name, 65, "length")], cached={message.name: 96}))

    client = EngineClient(engine)
    report = EngineReport(running=3, waiting=2, pages=10, free_pages=6)
    client.state_changed(EngineState(Ready(256, 256, "cpu") if ready else None, report=report))

    async def whole() -> list[httpx.Response]:
        transport = httpx.ASGITransport(WebSpec(Spec("tiny-llama"), "m", **kwargs).app(client))
        async with httpx.AsyncClient(transport=transport, base_url="http://m") as api:
            return [await api.request(**request) for request in requests]

    return asyncio.run(whole())


def post(body: dict[str, Any] = BODY, **kwargs: Any) -> dict[str, Any]:
    return {"method": "POST", "url": "/v1/completions", "json": body, **kwargs}


def get(path: str) -> dict[str, Any]:
    return {"method": "GET", "url": path}


def test_health_waits_for_the_engine_and_life_does_not() -> None:
    for ready in (False, True):
        responses = answers(get("/health"), get("/livez"), ready=ready)
        assert [answer.status_code for answer in responses] == [200 if ready else 503, 200]


def test_cached_tokens_and_repeated_prompts_are_counted() -> None:
    answer, metrics = answers(post(BODY | {"prompt": [[1] * 101, [2] * 99], "n": 8}), get("/metrics"))
    usage = answer.json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (200, 16)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 2 * 96
    assert "serve_prompt_tokens_total 200.0" in metrics.text
    assert "serve_cached_prompt_tokens_total 192.0" in metrics.text
    echo = {"prompt": [[1] * 250] * 8, "n": 128, "echo": True}
    refused, plain = answers(post(BODY | echo | {"logprobs": 20}), post(BODY | echo))
    assert (refused.status_code, plain.status_code) == (400, 200)
    assert refused.json()["error"]["message"].startswith("echo: more than 2,097,152 tokens or log probabilities")


def test_what_autoscalers_read_has_vllms_names_too() -> None:
    *_, metrics = answers(post(), get("/metrics"))
    for own, vllms in (
        ("serve_running_requests 3.0", 'vllm:num_requests_running{model_name="m"} 3.0'),
        ("serve_waiting_requests 2.0", 'vllm:num_requests_waiting{model_name="m"} 2.0'),
        ("serve_kv_cache_usage 0.4", 'vllm:kv_cache_usage_perc{model_name="m"} 0.4'),
        ("serve_time_to_first_token_seconds_count 1.0", 'vllm:time_to_first_token_seconds_count{model_name="m"} 1.0'),
    ):
        assert {own, vllms} <= {*metrics.text.splitlines()}
    assert 'vllm:time_to_first_token_seconds_bucket{le="5.0",model_name="m"} 1.0' in metrics.text


def test_pages_of_an_allowed_origin_may_ask_from_a_browser() -> None:
    wish = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    options = {"method": "OPTIONS", "url": "/v1/completions", "headers": {"Origin": ORIGIN, **wish}}
    for origins in ((ORIGIN,), ("*",)):
        given = {"key": "secret", "origins": origins}
        preflight, refused = answers(options, post(headers={"Origin": ORIGIN}), **given)
        assert (preflight.status_code, refused.status_code) == (200, 401)
        for answer in (preflight, refused):
            assert answer.headers["Access-Control-Allow-Origin"] == origins[0]
        assert "authorization" in preflight.headers["Access-Control-Allow-Headers"]
    (none,) = answers(options, origins=("https://other.example.org",))
    assert "Access-Control-Allow-Origin" not in none.headers
    (none,) = answers(options)
    assert (none.status_code, "Access-Control-Allow-Origin" in none.headers) == (405, False)


def test_a_compressed_body_is_refused_by_its_encoding() -> None:
    packed = gzip.compress(b"{}")
    answer, plain = answers(
        {"method": "POST", "url": "/v1/completions", "content": packed, "headers": {"Content-Encoding": "gzip"}},
        post(headers={"Content-Encoding": "identity"}),
    )
    assert (answer.status_code, plain.status_code) == (415, 200)
    assert answer.json()["error"]["message"].startswith('Content-Encoding "gzip" is not served here')


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Bearer secret", 200), ("bearer  secret ", 200), ("secret", 401), ("Basic secret", 401), ("Bearer", 401),
        ("Bearer sec ret", 401),
    ],
)  # fmt: skip
def test_a_key_is_that_of_bearer_without_the_spaces_around_it(header, status, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "secret \n")
    (answer,) = answers(post(headers={"Authorization": header}), key=_key(None))
    assert answer.status_code == status


def test_a_key_of_spaces_is_refused_and_protects_nothing_silently(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, " ")
    (tmp_path / "key").write_text("\n")
    for path, where in ((None, KEY_VARIABLE), (tmp_path / "key", "--api-key-file: ")):
        with pytest.raises(ValueError, match=f"^{where}.* is empty$"):
            _key(path)
    monkeypatch.setenv(KEY_VARIABLE, "")
    assert _key(None) is None


class Broken(ByteText):
    """A tokenizer with a mistake."""

    def encode(self, text: str, most: float = 0) -> list[int]:
        raise RuntimeError("a mistake")


def test_errors_that_nobody_foresaw_are_counted_and_refused_requests_have_no_tokens() -> None:
    async def whole() -> tuple[httpx.Response, httpx.Response, str]:
        client = EngineClient(lambda message: None)
        client.state_changed(EngineState(Ready(64, 256, "cpu", pause_ms=12.5)))
        transport = httpx.ASGITransport(Server(client, Broken(frozenset()), "m").app(), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://m") as api:
            failed = await api.post("/v1/completions", json={"model": "m", "prompt": "a"})
            refused = await api.post("/v1/completions", json={"model": "m", "prompt": [1, 2], "temperature": -1})
            return failed, refused, (await api.get("/metrics")).text

    failed, refused, metrics = asyncio.run(whole())
    assert (failed.status_code, set(failed.json()["error"])) == (500, {"message", "type", "param", "code"})
    assert 'serve_requests_total{path="/v1/completions",status="500"} 1.0' in metrics
    assert refused.status_code == 400
    assert "serve_longest_pause_seconds 0.0125" in metrics
    assert "serve_prompt_tokens_total 0.0" in metrics
