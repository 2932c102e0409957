"""The two kinds of answer as OpenAI's API writes them, their log probabilities among them."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from kernels.server.http.answering import Completion, LogprobEntry, Piece
from kernels.server.http.errors import ApiError
from kernels.server.http.text import TextCodec
from kernels.server.http.writing import with_list

_encode = json.JSONEncoder(ensure_ascii=False).encode
MIN_LOGPROB = -9999.0
"""What stands for the logarithm of 0, which JSON has no number for; vLLM writes the same."""


@dataclass(frozen=True)
class Form:
    """How one of the two kinds of answer is written."""

    name: str
    prefix: str
    chunk: str

    async def whole(self, answer: Completion, head: dict[str, Any]) -> bytes:
        """The body of a whole answer, with all of its choices."""
        wholes = [Piece(choice) for choice in range(len(answer.prompts) * answer.request.n)]
        async with aclosing(answer.pieces()) as pieces:
            async for piece in pieces:
                whole = wholes[piece.choice]
                whole.text += piece.text
                whole.ids += piece.ids
                whole.entries += piece.entries
                whole.calls += piece.calls
                whole.finish_reason = piece.finish_reason
        choices = (self.choice(whole, answer) for whole in wholes)
        return await with_list("choices", choices, head | {"object": self.name, "usage": answer.usage.document})

    async def events(
        self, answer: Completion, head: dict[str, Any], first: Piece, pieces: AsyncGenerator[Piece, None]
    ) -> AsyncIterator[bytes]:
        """Server-sent events: one for each piece, then the counts if they were asked for, then `[DONE]`."""
        head = head | {"object": self.chunk}
        usage = answer.request.stream_options.include_usage
        same = json.dumps(head)[:-1]  # what all events have is written once
        after = "]" + ', "usage": null' * usage + "}\n\n"
        begun: set[int] = set()

        def event(piece: Piece) -> bytes:
            choice = self.delta(piece, answer, piece.choice not in begun)
            begun.add(piece.choice)
            return f'data: {same}, "choices": [{_encode(choice)}{after}'.encode()

        try:
            yield event(first)
            async for piece in pieces:
                if piece.text or piece.calls or piece.finish_reason or answer.request.return_token_ids:
                    yield event(piece)
            if usage:
                yield _event(head | {"choices": [], "usage": answer.usage.document})
        except ApiError as error:
            yield _event(error.document)
        finally:
            await pieces.aclose()
        yield b"data: [DONE]\n\n"

    def choice(self, piece: Piece, answer: Completion) -> dict[str, Any]:
        """A choice of a whole answer, all of whose pieces are one."""
        own = {"text": piece.text}
        message: dict[str, Any] = {"role": "assistant", "content": piece.text}
        if piece.calls:
            message |= {"content": piece.text or None, "tool_calls": [call.document for call in piece.calls]}
        content = own if self.name == "text_completion" else {"message": message}
        return self._choice(piece, answer, content, True)

    def delta(self, piece: Piece, answer: Completion, first: bool) -> dict[str, Any]:
        """A choice of one event of a stream."""
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if piece.text or not piece.calls:
            delta["content"] = piece.text
        if piece.calls:
            delta["tool_calls"] = [{"index": call.index} | call.document for call in piece.calls]
        content = {"text": piece.text} if self.name == "text_completion" else {"delta": delta}
        return self._choice(piece, answer, content, first)

    def _choice(self, piece: Piece, answer: Completion, content: dict[str, Any], first: bool) -> dict[str, Any]:
        logprobs = None
        if answer.request.likeliest is not None:
            write = of_completion if self.name == "text_completion" else of_chat
            logprobs = write(piece.entries, answer.text)
        choice = {"index": piece.choice, **content, "logprobs": logprobs, "finish_reason": piece.finish_reason}
        if not answer.request.return_token_ids:
            return choice
        prompt = {"prompt_token_ids": answer.prompts[piece.choice // answer.request.n]} if first else {}
        return choice | prompt | {"token_ids": piece.ids}


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + _encode(document).encode() + b"\n\n"


COMPLETION = Form("text_completion", "cmpl", "text_completion")
CHAT = Form("chat.completion", "chatcmpl", "chat.completion.chunk")


def of_completion(entries: Sequence[LogprobEntry], text: TextCodec) -> dict[str, Any]:
    """`logprobs` of a completion's choice. The token itself is among its likeliest ones, if need be as one more."""
    top: list[dict[str, float] | None] = []
    for entry in entries:
        if entry.logprobs is None:
            top.append(None)
            continue
        likeliest: dict[str, float] = {}
        for token, logprob in (*entry.logprobs.likeliest, (entry.token, entry.logprobs.own)):
            likeliest.setdefault(_name(token, text), max(MIN_LOGPROB, logprob))
        top.append(likeliest)
    return {
        "tokens": [_name(entry.token, text) for entry in entries],
        "token_logprobs": [entry.logprobs and max(MIN_LOGPROB, entry.logprobs.own) for entry in entries],
        "top_logprobs": top,
        "text_offset": [entry.offset for entry in entries],
    }


def of_chat(entries: Sequence[LogprobEntry], text: TextCodec) -> dict[str, Any]:
    """`logprobs` of a chat completion's choice."""
    content = []
    for entry in entries:
        assert entry.logprobs is not None  # a chat repeats no prompt
        top = [_chat_token(token, logprob, text) for token, logprob in entry.logprobs.likeliest]
        content.append(_chat_token(entry.token, entry.logprobs.own, text) | {"top_logprobs": top})
    return {"content": content, "refusal": None}


def _chat_token(token: int, logprob: float, text: TextCodec) -> dict[str, Any]:
    own = text.token_bytes(token)
    return {"token": own.decode(errors="backslashreplace"), "logprob": max(MIN_LOGPROB, logprob), "bytes": [*own]}


def _name(token: int, text: TextCodec) -> str:
    """A token's text; `bytes:` and its bytes, such as \\xf0\\x9f, where they are no whole characters."""
    own = text.token_bytes(token)
    try:
        return own.decode()
    except UnicodeDecodeError:
        return "bytes:" + own.decode(errors="backslashreplace")
