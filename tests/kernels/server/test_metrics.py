"""What the server counts."""

import asyncio

import httpx

from kernels.server.http.app import Server
from kernels.server.http.client import EngineClient
from kernels.server.http.engine_state import EngineState
from kernels.server.http.text import ByteText
from kernels.server.messages import Ready


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
