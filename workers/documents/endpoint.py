"""A server of the customer's that a run measures as *before*, beside the baseline runner, and what was found there."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, SecretStr

from workers.documents.base import Document

Api = Literal["completions", "chat", "embeddings"]
"""Which of OpenAI's APIs a server is asked by."""
MAX_KEY_LENGTH = 500


KEY = "API key; kept encrypted, handed to the worker for one claim, and given out nowhere"


def _with_key(schema: dict[str, Any]) -> None:
    """The key is in every schema, as what is only written: requests and answers share one in the OpenAPI document."""
    written = {"type": "string", "format": "password", "writeOnly": True, "default": "", "maxLength": MAX_KEY_LENGTH}
    schema["properties"]["key"] = written | {"title": "Key", "description": KEY}


class Endpoint(Document):
    """A server that speaks OpenAI's API. The worker sends it the workload's traffic around verify.

    `key` goes in and never comes out: it is no part of any JSON that is made of this document.
    """

    model_config = ConfigDict(json_schema_extra=_with_key)

    url: str = Field(min_length=1, max_length=500, description="such as https://models.example.com/v1")
    model: str = Field(min_length=1, max_length=200, description="the model's name there")
    api: Api = Field(default="completions", description="embeddings for a model that generates no tokens")
    hardware: str = Field(default="", max_length=120, description="what it runs on, as you state it")
    key: SecretStr = Field(default=SecretStr(""), max_length=MAX_KEY_LENGTH, exclude=True, description=KEY)
