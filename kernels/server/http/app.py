"""The HTTP side: OpenAI's completions, chat completions and responses, models, health and metrics."""

import asyncio
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kernels.model_files.sentence_transformers import SentenceModules
from kernels.server.http.answering import Completion
from kernels.server.http.body_parsing import Document, parse_document
from kernels.server.http.body_process import BodyReader
from kernels.server.http.client import EngineClient
from kernels.server.http.embeddings import EmbeddingRequest, embed_texts
from kernels.server.http.errors import LONGEST_QUOTE, ApiError, quoted
from kernels.server.http.metrics import Metrics
from kernels.server.http.prompts import Prompts
from kernels.server.http.response_formats import CHAT, COMPLETION, Form
from kernels.server.http.responses import ResponseForm, ResponsesRequest
from kernels.server.http.schemas import MAX_ANSWERS, ChatCompletionRequest, CompletionRequest, GenerationRequest
from kernels.server.http.text import TextCodec
from kernels.server.http.tokenizing import DetokenizeRequest, TokenizeRequest, detokenize, tokenize
from kernels.server.http.tools import ToolCalling
from kernels.server.http.writing import piece_by_piece
from kernels.server.messages import Ready

MAX_BODY = 8 << 20
LARGE_BODY = 64 << 10
"""The least bytes of a body that the server's own process does not read. One of so many may take 3 ms."""


async def document_of(
    request: Request, kind: type[Document], longest: int | None = None, reader: BodyReader | None = None
) -> Document:
    """The body as a document, prompts of `longest` tokens at most, large ones by `reader`. Raises ApiError."""
    too_large = ApiError(413, f"the body exceeds {MAX_BODY >> 20} MiB")
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise ApiError(415, f"Content-Encoding {quoted(encoding)} is not served here: send the body as it is")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_BODY:
        raise too_large
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise too_large
    if reader is None or len(body) < LARGE_BODY:
        return parse_document(bytes(body), kind, longest)
    return await reader.read(kind, bytes(body), longest)


Found = TypeVar("Found")
Tokens = TypeVar("Tokens", TokenizeRequest, DetokenizeRequest)
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
"""The headers of an error, by its status."""
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""The headers of a stream. Without the second, nginx holds events back until it has some kilobytes."""
CLOSED = 499
"""The status that is counted for a client that went away."""


class Server:
    """The routes over one engine. `name` is the model's name to clients; without `api_key` nobody is asked for one."""

    def __init__(
        self,
        client: EngineClient,
        text: TextCodec,
        name: str,
        api_key: str | None = None,
        embeds: SentenceModules | None = None,
        several: bool = False,
    ) -> None:
        """`embeds`: the model gives vectors, and no text. `several`: other web servers have the same engine."""
        self.client, self.text, self.name, self._key, self._embeds = client, text, name, api_key, embeds
        self.metrics = Metrics(client, name, several)
        self._reader = BodyReader()
        self._began = int(time.time())

    def app(self) -> Starlette:
        """The ASGI application. Who made the client starts and stops it."""
        routes = [
            self._route("/v1/completions", self._completions, "POST"),
            self._route("/v1/chat/completions", self._chat, "POST"),
            self._route("/v1/responses", self._responses, "POST"),
            self._route("/v1/embeddings", self._embeddings, "POST"),
            self._route("/tokenize", self._of_tokens(TokenizeRequest, tokenize), "POST"),
            self._route("/detokenize", self._of_tokens(DetokenizeRequest, detokenize), "POST"),
            self._route("/v1/models", self._models, "GET"),
            self._route("/v1/models/{name:path}", self._model, "GET"),
            Route("/health", self._health),
            Route("/livez", self._livez),
            Route("/metrics", self._metrics),
        ]
        handlers = {HTTPException: _http_error, Exception: _failed}
        application = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        application.router.redirect_slashes = False
        return application

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        self._reader.close()

    def _route(self, path: str, handle: Callable[[Request], Awaitable[Response]], method: str) -> Route:
        """The handler behind the API key; errors become OpenAI's shape, and statuses are counted by the route."""

        async def call(request: Request) -> Response:
            try:
                self._authorise(request)
                response = await handle(request)
            except ApiError as error:
                response = JSONResponse(error.document, error.status, HEADERS.get(error.status))
            except ClientDisconnect:
                response = Response(status_code=CLOSED)
            except Exception:  # `_failed` answers
                self.metrics.requests.labels(path, 500).inc()
                raise
            self.metrics.requests.labels(path, response.status_code).inc()
            return response

        return Route(path, call, methods=[method])

    def _authorise(self, request: Request) -> None:
        if self._key is None:
            return
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        valid = hmac.compare_digest(key.strip().encode("latin-1"), self._key.encode())
        if scheme.lower() != "bearer" or not valid:
            raise ApiError(401, "the Authorization header must be Bearer with a valid API key", code="invalid_api_key")

    async def _document(self, request: Request, kind: type[Document]) -> Document:
        longest = self.client.ready.longest if self.client.ready else None
        return await document_of(request, kind, longest, self._reader)

    async def _completions(self, request: Request) -> Response:
        document = await self._document(request, CompletionRequest)
        self._check_model(document.model)
        if len(document.prompts) * document.n > MAX_ANSWERS:
            raise ApiError(400, f"prompt: more than {MAX_ANSWERS:,} answers to one request", "prompt")
        prompts = self._prompts("prompt", document.limit or 1)
        return await self._respond(
            request, COMPLETION, document, await prompts.encode_all(document.prompts), prompts.ready
        )

    async def _chat(self, request: Request) -> Response:
        document = await self._document(request, ChatCompletionRequest)
        self._check_model(document.model)
        prompts = self._prompts("messages", document.limit or 1)
        calling = document.calling(self.text.tool_format)
        messages = [message.document for message in document.messages]
        ids = await prompts.of_chat(messages, document.chat_template_kwargs | document.tools_of_template)
        return await self._respond(request, CHAT, document, [ids], prompts.ready, calling)

    async def _responses(self, request: Request) -> Response:
        document = await self._document(request, ResponsesRequest)
        self._check_model(document.model)
        chat = document.chat
        prompts = self._prompts("input", chat.limit or 1)
        ids = await prompts.of_chat([message.document for message in chat.messages], {})
        return await self._respond(request, ResponseForm(document), chat, [ids], prompts.ready)

    async def _respond(
        self,
        request: Request,
        form: Form | ResponseForm,
        document: GenerationRequest,
        prompts: list[list[int]],
        ready: Ready,
        calling: ToolCalling | None = None,
    ) -> Response:
        answer = Completion(self.client, self.text, self.metrics, document, prompts, ready.longest, calling)
        self.metrics.prompt_tokens.inc(answer.usage.prompt)
        head = {"id": f"{form.prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": self.name}
        if not document.stream:
            return Response(await _until_gone(request, form.whole(answer, head)), media_type="application/json")
        pieces = answer.pieces()
        first = await _until_gone(request, anext(pieces))  # what is wrong is known before the headers are sent
        events = form.events(answer, head, first, pieces)
        return StreamingResponse(events, media_type="text/event-stream", headers=STREAM_HEADERS)

    async def _embeddings(self, request: Request) -> Response:
        document = await self._document(request, EmbeddingRequest)
        self._check_model(document.model, embeds=True)
        texts = await self._prompts("input").encode_all(document.inputs(self._embeds or SentenceModules()))
        self.metrics.prompt_tokens.inc(sum(map(len, texts)))
        began = time.monotonic()
        body = await _until_gone(request, embed_texts(self.client, texts, document))
        self.metrics.whole.observe(time.monotonic() - began)
        return Response(body, media_type="application/json")

    def _of_tokens(
        self, kind: type[Tokens], answer: Callable[[Tokens, Prompts], Awaitable[dict[str, Any]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """The handler of texts that become ids, or of ids that become text."""

        async def handle(request: Request) -> Response:
            document = await self._document(request, kind)
            self._check_name(document.model or self.name)
            content = await answer(document, self._prompts(document.field))
            return Response(await asyncio.to_thread(piece_by_piece, content), media_type="application/json")

        return handle

    def _check_name(self, name: str) -> None:
        if name != self.name:
            sentence = f"there is no model {quoted(name)} here; there is {self.name}"
            raise ApiError(404, sentence, "model", "model_not_found")

    def _check_model(self, name: str, embeds: bool = False) -> None:
        self._check_name(name)
        if embeds != (self._embeds is not None):
            answers = "vectors: ask /v1/embeddings" if self._embeds else "text: ask /v1/completions"
            raise ApiError(400, f"the model {name} gives {answers}", "model")

    def _prompts(self, name: str, answer: int | None = None) -> Prompts:
        """What encodes this request. Raises ApiError while the engine is not ready."""
        if self.client.ready is None:
            raise self.client.not_ready()
        return Prompts(self.text, self.client.ready, answer, name)

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._check_name(name)
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        longest = self.client.ready.longest if self.client.ready else None
        own = {"id": self.name, "object": "model", "created": self._began, "owned_by": "kernel-workbench"}
        return own | {"max_model_len": longest}

    async def _livez(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse(f"{self.client.state.status_line}\n", 503 if self.client.ready is None else 200)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path if len(request.url.path) <= LONGEST_QUOTE else request.url.path[:LONGEST_QUOTE] + "…"
    sentences = {404: f"there is no {path} here", 405: f"{request.method} is not served at {path}"}
    document = ApiError(error.status_code, sentences.get(error.status_code, "the request is not served")).document
    return JSONResponse(document, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """For what nobody foresaw; the web server logs the error."""
    return JSONResponse(ApiError(500, "the server failed at this request, and its log says where").document, 500)


async def _until_gone(request: Request, work: Awaitable[Found]) -> Found:
    """The work's result. Ends the work when the client goes away, and raises ClientDisconnect."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for waiting in (task, gone):
            waiting.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
