"""Vectors of texts: those of the model whatever is beside them in a batch, and asked for as OpenAI's clients ask."""

import asyncio
import base64
import json
import struct
import sys
from collections import deque
from pathlib import Path

import httpx
import psutil
import pytest
import torch

from kernels import runners
from kernels.load.server_process import reserve_port, run_server
from kernels.model.sentence_head import SentenceHead
from kernels.model_files import catalogue
from kernels.model_files.sentence_transformers import SentenceModules
from kernels.server.http.client import EngineClient
from kernels.server.http.embeddings import EmbeddingRequest, embed_texts
from kernels.server.processes.encoder import (
    MAX_ROWS,
    MAX_TOKENS,
    Encoder,
    Waiting,
    build_encoder,
    gives_vectors,
    next_batch,
)
from kernels.server.spec import Spec
from kernels.server.starting import Phases
from tests.kernels.server.conftest import metric

CONFIG = catalogue.entry("tiny-bert")[0]
TEXTS = [[5, 6, 7], [9] * 30, [11, 12]]


@pytest.fixture(scope="module")
def model():
    return runners.load(None, CONFIG, seed=0, generated=True, dtype="fp32", device="cpu")


POOLED = {
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(0).values,
    "mean": lambda hidden: hidden.mean(0),
    "mean_sqrt_len_tokens": lambda hidden: hidden.sum(0) / len(hidden) ** 0.5,
    "weightedmean": lambda hidden: sum((at + 1) * row for at, row in enumerate(hidden)) / sum(range(len(hidden) + 1)),
    "lasttoken": lambda hidden: hidden[-1],
}


@pytest.mark.parametrize("pooling", [(name,) for name in POOLED] + [("mean", "cls")])
def test_a_vector_is_the_models_whatever_is_beside_it(model, pooling: tuple[str, ...]) -> None:
    result = torch.tensor(Encoder(model, SentenceHead(SentenceModules(pooling)), 512).vectors(TEXTS))
    for vector, ids in zip(result, TEXTS, strict=True):
        with torch.no_grad():
            hidden = model.bert(torch.tensor([ids])).last_hidden_state[0]
        alone = torch.cat([POOLED[mode](hidden) for mode in pooling])
        torch.testing.assert_close(vector, alone / alone.norm(), atol=1e-5, rtol=1e-4)


def test_batches_keep_the_order_and_the_limits() -> None:
    waiting = deque(Waiting(str(at), [1] * length, 0.0) for at, length in enumerate([1] * 100 + [MAX_TOKENS, 3]))
    sizes = []
    while waiting:
        batch = next_batch(waiting)
        sizes.append(len(batch))
        assert len(batch) == 1 or len(batch) * max(len(item.ids) for item in batch) <= MAX_TOKENS
    assert sizes == [MAX_ROWS, 100 - MAX_ROWS, 1, 1]


@pytest.mark.parametrize(("family", "pads"), [("bert", True), ("fnet", False), ("convbert", False)])
def test_padding_is_left_out_where_it_changes_a_vector(tmp_path: Path, family: str, pads: bool, capsys) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = {"model_type": family, "vocab_size": 99, "embedding_size": 64} | sizes
    (tmp_path / "config.json").write_text(json.dumps(config))
    encoder, _ = build_encoder(Spec(str(tmp_path), device="cpu", dtype="fp32"), Phases())
    assert encoder.pads == pads
    assert ("padding changes the model's vectors" in capsys.readouterr().err) != pads
    waiting = deque(Waiting(str(at), [1] * length, 0.0) for at, length in enumerate([3, 3, 4, 3]))
    sizes_of = [len(next_batch(waiting, encoder.pads)) for _ in range(1 if pads else 3)]
    assert sizes_of == ([4] if pads else [2, 1, 1])


@pytest.mark.parametrize(("family", "longest"), [("bert", 66), ("roberta", 64), ("xlm-roberta", 64), ("mpnet", 64)])
def test_a_text_may_be_as_long_as_the_model_has_positions_for_it(tmp_path: Path, family: str, longest: int) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = {"model_type": family, "vocab_size": 99, "max_position_embeddings": 66} | sizes
    (tmp_path / "config.json").write_text(json.dumps(config))
    encoder, ready = build_encoder(Spec(str(tmp_path), device="cpu", dtype="fp32"), Phases())
    assert (encoder.longest, ready.longest) == (longest, longest)
    assert len(encoder.vectors([[5] * longest, [5]])) == 2
    with pytest.raises((IndexError, RuntimeError), match=r"index|size"):
        encoder.vectors([[5] * (longest + 1)])


def test_a_classifier_is_not_served_as_if_it_gave_vectors() -> None:
    assert gives_vectors(CONFIG)
    assert not gives_vectors(catalogue.entry("tiny-llama")[0])
    with pytest.raises(ValueError, match="BertForSequenceClassification answers with classes"):
        gives_vectors(CONFIG | {"architectures": ["BertForSequenceClassification"]})


def test_others_get_a_turn_while_vectors_are_written() -> None:
    turns = 0

    class Engine(EngineClient):
        async def embed(self, ids: list[int]) -> list[float]:
            return [0.25, 1e-9, -3.0]

    async def whole() -> dict:
        nonlocal turns
        asked = EmbeddingRequest(model='m"', input=["a"])
        writing = asyncio.ensure_future(embed_texts(Engine(lambda message: None), [[1, 2]] * 300, asked))
        while not writing.done():
            turns += 1
            await asyncio.sleep(0)
        return json.loads(await writing)

    result = asyncio.run(whole())
    assert turns > 300, "one behind each vector"
    assert [item["index"] for item in result["data"]] == [*range(300)]
    assert all(item["embedding"] == [0.25, 1e-9, -3.0] for item in result["data"])
    assert (result["object"], result["model"], result["usage"]["total_tokens"]) == ("list", 'm"', 600)


def test_the_server_answers_after_openais_api(model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    url = f"http://127.0.0.1:{(port := reserve_port())}"
    command = [sys.executable, "-m", "kernels", "serve", "--model", "tiny-bert", "--device", "cpu", "--port", str(port)]
    command += ["--web-processes", "2"]
    with (
        run_server(command, f"{url}/health", tmp_path / "log", 300) as server,
        httpx.Client(base_url=url, trust_env=False) as api,
    ):
        for child in psutil.Process(server.pid).children(recursive=True):
            child.terminate()  # as with a signal to the whole group; the engine goes on until the server has drained
        asked = {"model": "tiny-bert", "input": TEXTS}
        result = api.post("/v1/embeddings", json=asked, timeout=300).json()
        assert result["usage"] == {"prompt_tokens": 35, "total_tokens": 35}
        assert [item["index"] for item in result["data"]] == [0, 1, 2]
        expected = torch.tensor(Encoder(model, SentenceHead(SentenceModules()), 512).vectors(TEXTS))
        vectors = torch.tensor([item["embedding"] for item in result["data"]])
        torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=1e-4)
        short = api.post("/v1/embeddings", json=asked | {"input": TEXTS[0], "encoding_format": "base64"}, timeout=300)
        values = struct.unpack("<128f", base64.b64decode(short.json()["data"][0]["embedding"]))
        torch.testing.assert_close(torch.tensor(values), expected[0], atol=1e-5, rtol=1e-4)
        for body, said in (
            ({"input": [7] * 513}, "maximum context length is 512 tokens, which a text of 513 tokens exceeds"),
            ({"input": [5000]}, "vocabulary of 2,048"),
            ({"input": []}, "input"),
            ({"input": "a", "dimensions": 8}, "dimensions is not served"),
            ({"input": "a", "prompt_name": "query"}, "prompt_name: the model has no prompt 'query'"),
        ):
            refused = api.post("/v1/embeddings", json={"model": "tiny-bert"} | body, timeout=300)
            assert (refused.status_code, said in refused.json()["error"]["message"]) == (400, True), refused.text
        assert (metric(api, "prompt_tokens_total"), metric(api, "request_seconds_count")) == (35 + 3, 2)  # not 513
        refused = api.post("/v1/completions", json={"model": "tiny-bert", "prompt": "a"})
        assert "gives vectors: ask /v1/embeddings" in refused.json()["error"]["message"]
