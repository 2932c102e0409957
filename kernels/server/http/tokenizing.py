"""`/tokenize` and `/detokenize` as vLLM has them: the ids of a text or of a chat, and the text of ids."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field, StrictInt, model_validator

from kernels.server.http.chat_messages import Message
from kernels.server.http.errors import ApiError, refused
from kernels.server.http.prompts import Prompts
from kernels.server.http.schemas import UNSERVED, without_nulls
from kernels.server.http.text import TextCodec
from kernels.server.http.unserved import not_served

OF_TEMPLATES = {"add_generation_prompt", "chat_template", "continue_final_message"}
"""Fields of chats that would change the ids, as `UNSERVED` has them."""


class TokenizeRequest(BaseModel):
    """A text, or a chat that the assistant is to continue."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)] | None = None
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] = {}
    add_special_tokens: bool = True
    return_token_strs: bool = False

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        for name in data.keys() & OF_TEMPLATES if isinstance(data, dict) else ():
            if data[name] not in UNSERVED[name]:
                raise refused(name, not_served(name))
        return without_nulls(data)

    @property
    def field(self) -> str:
        """The field that the ids are of."""
        return "prompt" if self.messages is None else "messages"

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("it must have either a prompt or messages")
        return self


class DetokenizeRequest(BaseModel):
    """Token ids."""

    model: str | None = None
    tokens: Annotated[list[StrictInt], Field(fail_fast=True)]
    field: ClassVar[str] = "tokens"


async def tokenize(document: TokenizeRequest, prompts: Prompts) -> dict[str, Any]:
    """The answer to a request. Texts of any length are encoded."""
    text = prompts.text
    if document.messages is None:
        prompt = document.prompt or ""
        ids = await prompts.encode_in_thread(lambda: text.encode(prompt, special=document.add_special_tokens), [prompt])
    else:
        messages = [message.document for message in document.messages]
        variables = document.chat_template_kwargs | ({"tools": document.tools} if document.tools else {})
        ids = await prompts.chat(messages, variables)
    strings = None
    if document.return_token_strs:
        strings = await prompts.encode_in_thread(lambda: [_text(text, [token]) for token in ids], None)
    return {"count": len(ids), "max_model_len": prompts.ready.longest, "tokens": ids, "token_strs": strings}


async def detokenize(document: DetokenizeRequest, prompts: Prompts) -> dict[str, Any]:
    """The answer to a request, special tokens included. Raises ApiError for an id that does not exist."""
    vocabulary = prompts.ready.vocabulary
    if document.tokens and (min(document.tokens) < 0 or max(document.tokens) >= vocabulary):
        raise ApiError(400, f"tokens: an id lies outside of the vocabulary of {vocabulary:,}", "tokens")
    return {"prompt": await prompts.encode_in_thread(lambda: _text(prompts.text, document.tokens), None)}


def _text(text: TextCodec, ids: list[int]) -> str:
    return b"".join(map(text.token_bytes, ids)).decode(errors="replace")
