"""`POST /v1/embeddings`, after OpenAI's API."""

import asyncio
import base64
import struct
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from kernels.model_files.sentence_transformers import SentenceModules
from kernels.server.http.client import EngineClient
from kernels.server.http.errors import ApiError, refused
from kernels.server.http.schemas import Texts, texts_or_ids, without_nulls
from kernels.server.http.unserved import OF_EMBEDDINGS, not_served
from kernels.server.http.writing import with_list
from kernels.server.scheduler.requests import input_too_long

MAX_TEXTS = 2048


class EmbeddingRequest(BaseModel):
    """Vectors come as lists, or as base64 of float32 values. `prompt_name` is known from sentence-transformers."""

    model: str
    prompt_name: str | None = None
    input: Texts = Field(union_mode="left_to_right")
    encoding_format: Literal["float", "base64"] = "float"

    _validated = field_validator("input", mode="wrap")(
        texts_or_ids(MAX_TEXTS, lambda tokens, longest, info: input_too_long(tokens, longest))
    )

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        fields = without_nulls(data)
        for name, value in fields.items() if isinstance(fields, dict) else ():
            if value not in OF_EMBEDDINGS.get(name, (value,)):
                raise refused(name, not_served(name))
        return fields

    def inputs(self, modules: SentenceModules) -> Sequence[str | list[int]]:
        """Each input by itself, texts behind their prompt. Raises ApiError where the model has no such prompt."""
        given: Any = self.input
        several = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
        try:
            return [modules.prompted(item, self.prompt_name) if isinstance(item, str) else item for item in several]
        except ValueError as error:
            raise ApiError(400, f"prompt_name: {error}", "prompt_name") from error


async def embed_texts(client: EngineClient, texts: Sequence[list[int]], document: EmbeddingRequest) -> bytes:
    """The answer's JSON. Raises ApiError; the other texts are then given up."""
    tasks = [asyncio.ensure_future(client.embed(ids)) for ids in texts]
    try:
        vectors = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    tokens = sum(map(len, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = (
        {"object": "embedding", "index": index, "embedding": written(vector, document.encoding_format)}
        for index, vector in enumerate(vectors)
    )
    return await with_list("data", body, {"object": "list", "model": document.model, "usage": usage})


def written(vector: Sequence[float], form: str) -> Sequence[float] | str:
    """A vector as it stands in JSON."""
    if form == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
