"""`/v1/responses`, OpenAI's newer API, in its plain form: one text for one input, whole or as events. It keeps nothing,
so it takes no identity of an earlier response, and it has no tools.
"""

import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from kernels.server.http.answering import Completion, Piece
from kernels.server.http.errors import ApiError, of_validation, refused
from kernels.server.http.schemas import MAX_MESSAGES, ChatCompletionRequest, without_nulls
from kernels.server.http.schemas import UNSERVED as UNSERVED_OF_CHATS
from kernels.server.http.unserved import not_served

OF_CHATS = {name: (None, field.default) for name, field in ChatCompletionRequest.model_fields.items()}
UNSERVED: dict[str, tuple[Any, ...]] = {
    **UNSERVED_OF_CHATS,
    **OF_CHATS,
    "background": (None, False),
    "conversation": (None,),
    "include": (None, []),
    "max_tool_calls": (None,),
    "parallel_tool_calls": (None, True, False),
    "previous_response_id": (None,),
    "prompt": (None,),
    "reasoning": (None, {}),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "top_logprobs": (None, 0),
    "truncation": (None, "disabled"),
}
"""Fields that this server has no part for, those of chats among them, with the values that change nothing."""


class InputPart(BaseModel):
    """A part of a message, of a client's text or of an earlier answer."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class InputMessage(BaseModel):
    """One element of `input`."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[InputPart], Field(fail_fast=True)]

    @property
    def message(self) -> dict[str, str]:
        """The same as a message of a chat."""
        content = self.content
        return {
            "role": self.role,
            "content": content if isinstance(content, str) else "".join(part.text for part in content),
        }


class TextFormat(BaseModel):
    """`text.format`, which has the fields of a chat's `json_schema` beside its `type`."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if self.type == "json_schema" and not self.schema_:
            raise ValueError("its schema is missing")
        return self


class TextOptions(BaseModel):
    """`text`."""

    format: TextFormat = TextFormat()

    _given = model_validator(mode="before")(without_nulls)


class ResponsesRequest(BaseModel):
    """`POST /v1/responses`. Its answer is that of the chat that it stands for."""

    model: str
    input: str | Annotated[list[InputMessage], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]
    instructions: str | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float = 1.0
    top_p: float = 1.0
    stream: bool = False
    text: TextOptions = TextOptions()
    metadata: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        for name, value in data.items() if isinstance(data, dict) else ():
            if name not in (*cls.model_fields, "stream_options") and value not in UNSERVED.get(name, (value,)):
                raise refused(name, not_served(name))
        return without_nulls(data)

    @property
    def chat(self) -> ChatCompletionRequest:
        """The chat that it stands for. Raises ApiError."""
        text = self.text.format
        given = self.input if isinstance(self.input, list) else [InputMessage(role="user", content=self.input)]
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        fields = {
            "model": self.model,
            "messages": [*system, *(message.message for message in given)],
            "max_completion_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stream": self.stream,
            "response_format": {"type": text.type, "json_schema": text.schema_ and {"schema": text.schema_}},
        }
        try:
            return ChatCompletionRequest.model_validate(fields)
        except ValidationError as error:
            raise of_validation(error) from error


@dataclass
class ResponseForm:
    """How the answer to one request is written."""

    request: ResponsesRequest
    prefix: str = "resp"

    async def whole(self, answer: Completion, head: dict[str, Any]) -> bytes:
        text, reason = "", None
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                text, reason = text + piece.text, piece.finish_reason
        return json.dumps(self._ended(answer, head, f"msg_{secrets.token_hex(12)}", text, reason)).encode()

    async def events(
        self, answer: Completion, head: dict[str, Any], first: Piece, pieces: AsyncGenerator[Piece, None]
    ) -> AsyncIterator[bytes]:
        """Server-sent events, numbered: the response and its only message begin, text comes, and all end."""
        numbers = iter(range(1 << 62))
        name, text, reason = f"msg_{secrets.token_hex(12)}", first.text, first.finish_reason
        place = {"item_id": name, "output_index": 0, "content_index": 0}

        def event(kind: str, **fields: Any) -> bytes:
            document = {"type": kind, "sequence_number": next(numbers), **fields}
            return f"event: {kind}\ndata: {json.dumps(document, ensure_ascii=False)}\n\n".encode()

        started = self._document(head, "in_progress")
        item = {"id": name, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        yield event("response.created", response=started)
        yield event("response.in_progress", response=started)
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.content_part.added", **place, part=_part(""))
        try:
            if first.text:
                yield event("response.output_text.delta", **place, delta=first.text, logprobs=[])
            async for piece in pieces:
                text, reason = text + piece.text, piece.finish_reason
                if piece.text:
                    yield event("response.output_text.delta", **place, delta=piece.text, logprobs=[])
        except ApiError as error:
            failed = {"code": error.code or "server_error", "message": error.message}
            yield event("response.failed", response=self._document(head, "failed") | {"error": failed})
            return
        finally:
            await pieces.aclose()
        ended = self._ended(answer, head, name, text, reason)
        yield event("response.output_text.done", **place, text=text, logprobs=[])
        yield event("response.content_part.done", **place, part=_part(text))
        yield event("response.output_item.done", output_index=0, item=ended["output"][0])
        yield event(f"response.{ended['status']}", response=ended)

    def _ended(
        self, answer: Completion, head: dict[str, Any], name: str, text: str, reason: str | None
    ) -> dict[str, Any]:
        status = "incomplete" if reason == "length" else "completed"
        message = {"id": name, "type": "message", "role": "assistant", "status": status, "content": [_part(text)]}
        usage = {
            "input_tokens": answer.usage.prompt,
            "input_tokens_details": {"cached_tokens": answer.usage.cached},
            "output_tokens": answer.usage.completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.usage.prompt + answer.usage.completion,
        }
        cut = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return self._document(head, status) | {"incomplete_details": cut, "output": [message], "usage": usage}

    def _document(self, head: dict[str, Any], status: str) -> dict[str, Any]:
        """The response without an output."""
        request = self.request
        return {
            "id": head["id"].replace("-", "_"),
            "object": "response",
            "created_at": head["created"],
            "model": head["model"],
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": request.temperature,
            "text": {"format": request.text.format.model_dump(by_alias=True, exclude_none=True)},
            "tool_choice": "auto",
            "tools": [],
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": None,
        }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
