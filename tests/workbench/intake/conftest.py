"""A small model in memory, and an upload of it by the API."""

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from kernels.model_files.families import FAMILIES

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def safetensors(config: dict[str, Any]) -> bytes:
    """Zero weights of the right names and shapes."""
    header: dict[str, Any] = {}
    offset = 0
    for name, shape in FAMILIES["llama"].shapes(config):
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header["model." + name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(offset)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def model_files() -> dict[str, bytes]:
    """A whole model: configuration, weights, tokenizer."""
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": safetensors(CONFIG),
        "tokenizer.json": b"{}",
    }


def announce(client: Client, files: dict[str, bytes], name: str = "tiny") -> Any:
    body = {"name": name, "files": [{"path": path, "size": len(content)} for path, content in files.items()]}
    return client.post("/api/v1/uploads", body, content_type="application/json")


def send(client: Client, upload: str, number: int, content: bytes, offset: int = 0) -> Any:
    return client.patch(
        f"/api/v1/uploads/{upload}/files/{number}",
        content,
        content_type="application/octet-stream",
        headers={"Upload-Offset": str(offset)},
    )


def finish(client: Client, upload: str, files: dict[str, bytes]) -> Any:
    body = {"files": [{"path": path, "sha256": sha(content)} for path, content in files.items()]}
    return client.post(f"/api/v1/uploads/{upload}/finish", body, content_type="application/json")


@pytest.fixture
def upload_model() -> Callable[[Client, dict[str, bytes]], Any]:
    """`upload_model(client, files)`: the last answer of a whole upload."""

    def whole(client: Client, files: dict[str, bytes]) -> Any:
        answer = announce(client, files)
        if answer.status_code != 201:
            return answer
        upload = answer.json()["id"]
        for number, content in enumerate(files.values()):
            if content:
                assert send(client, upload, number, content).status_code == 200
        return finish(client, upload, files)

    return whole
