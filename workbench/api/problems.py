"""Errors of the API: problem+json (RFC 9457) in the sentences that forms and the command line show too."""

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from ninja import Field, NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationErrorContext
from ninja.parser import Parser

from kernels.model_files import ModelRefused
from kernels.model_files.strict_json import MAX_ENTRIES, parse_json
from workbench.api.sentences import Problem, describe_error, field_path, invalid, sentence
from workbench.openapi import PROBLEM_TYPE, complete
from workbench.serving.body_limits import API, WORKER
from workbench.storage import database, disk
from workbench.web.error_pages import refused
from workbench.web.middleware import Middleware

log = logging.getLogger(__name__)
BODY_ENTRIES = 300_000
"""A few MiB of nothing but brackets would take hundreds of MiB; a text for quality may hold 131,072 commas."""


class Reason(Schema):
    """One thing wrong with the input: where, and why."""

    field: str = ""
    reason: str
    file: str = ""


class ProblemDocument(Schema):
    """The body of every error of the API."""

    type: str = "about:blank"
    title: str = Field(description="the status in words")
    status: int
    detail: str = Field(description="one sentence that says what is wrong")
    errors: list[Reason] = []


def respond(status: int, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> HttpResponse:
    """A problem+json response."""
    document = problem_document(status, detail, errors)
    return HttpResponse(document.model_dump_json(), status=status, content_type=PROBLEM_TYPE)


def refuse(request: HttpRequest, status: int, title: str, reason: str, retry_after: int = 0) -> HttpResponse:
    """A refusal by middleware: a problem under /api/, otherwise a page."""
    if not request.path.startswith(API):
        return refused(status, title, reason, retry_after)
    problem = respond(status, reason)
    if retry_after:
        problem["Retry-After"] = str(retry_after)
    return problem


def problem_document(status: int, detail: str, errors: Sequence[Mapping[str, str]] = ()) -> ProblemDocument:
    """The document of an error."""
    reasons = [Reason.model_validate(dict(error)) for error in errors]
    return ProblemDocument(title=HTTPStatus(status).phrase, status=status, detail=detail, errors=reasons)


def _on_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if error.status_code == 400 and error.__cause__ is not None:  # ninja could not parse the body
        reason = {"field": "body", "reason": f"is not valid JSON: {error.__cause__}"}
        return respond(400, sentence(reason), [reason])
    return respond(error.status_code, str(error))


def _on_unauthenticated(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    expired = getattr(request, "token_problem", "")
    response = respond(401, expired or DETAILS[401])
    response["WWW-Authenticate"] = 'Bearer error="invalid_token"' if expired else "Bearer"
    return response


def _on_not_found(request: HttpRequest, error: Http404) -> HttpResponse:
    missing = re.match(r"No (\w+) matches", str(error))
    name = re.sub(r"(?<!^)(?=[A-Z])", " ", missing[1]).lower() if missing else "thing"
    return respond(404, f"No such {name} in this organisation.")


def _on_crash(request: HttpRequest, error: Exception) -> HttpResponse:
    if disk.is_full(error):
        log.error("the disk is full in %s %s: %s", request.method, request.path, error)
        return respond(507, DETAILS[507])
    if database.is_unavailable(error):
        log.error("the database is locked or unavailable in %s %s: %s", request.method, request.path, error)
        return retry_later()
    log.exception("unhandled error in %s %s", request.method, request.path)
    return respond(500, DETAILS[500])


def retry_later() -> HttpResponse:
    """The 503 while the database is locked or unavailable."""
    response = respond(503, DETAILS[503])
    response["Retry-After"] = str(database.RETRY_SECONDS)
    return response


DETAILS = {
    400: "The request could not be read.",
    401: "Send a valid API token as `Authorization: Bearer …`, or log in.",
    403: "You are not allowed to do this.",
    405: "This address does not take that method.",
    413: "The request's body is too large.",
    500: "Something went wrong on our side; the log has it under this response's X-Request-ID.",
    503: "The workbench's database is busy; try again in a few seconds.",
    507: "The workbench's disk is full; delete models, runs or uploads that are no longer needed.",
}


HANDLERS: dict[type[Exception], Callable[..., HttpResponse]] = {
    Exception: _on_crash,
    AuthenticationError: _on_unauthenticated,
    HttpError: _on_http_error,
    Http404: _on_not_found,
    PermissionDenied: lambda _, error: respond(403, str(error) or DETAILS[403]),
    Problem: lambda _, error: respond(error.status, error.detail, error.errors),
    RequestDataTooBig: lambda *_: respond(413, DETAILS[413]),
}


class _Parser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        if rb"\u0000" in request.body:
            raise ValueError("text must not contain the character NUL")
        try:
            worker = request.path.startswith(WORKER)
            return parse_json("", request.body, MAX_ENTRIES if worker else BODY_ENTRIES)
        except ModelRefused as error:
            raise ValueError(": ".join(filter(None, [error.field, error.reason]))) from None


class ProblemAPI(NinjaAPI):
    """An API that answers every error as problem+json, also one in the names of query parameters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(parser=_Parser(), **options)
        self.add_decorator(known_parameters_only, mode="view")
        for kind, handler in HANDLERS.items():
            self.add_exception_handler(kind, handler)

    def get_openapi_operation_id(self, operation: Any) -> str:
        """The name of the function, which no two endpoints share: generated clients name their calls by it."""
        return str(operation.view_func.__name__)

    def get_openapi_schema(self, **options: Any) -> Any:
        """The OpenAPI document, with the errors of every operation."""
        document = super().get_openapi_schema(**options)
        complete(document, ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}"))
        return document

    def validation_error_from_error_contexts(self, error_contexts: list[ValidationErrorContext]) -> Any:
        """A Problem that names the fields as the caller sent them, without the endpoint's own parameter name."""
        errors = []
        for context in error_contexts:
            names = context.model.__ninja_flatten_map_reverse__
            single_attribute = getattr(context.model, "__read_from_single_attr__", None)
            for part in context.pydantic_validation_error.errors(include_url=False):
                path = names.get(part["loc"], part["loc"])
                field, reason = describe_error(
                    part, field_path(path[1:] if single_attribute and path[:1] == (single_attribute,) else path)
                )
                errors.append({"field": field or "body", "reason": reason})
        return invalid(errors)


def _no_such_address() -> str:
    """The sentence for an address without an operation; the worker API's server has no reference."""
    try:
        return f"There is no such address; {reverse('api-docs')} has all of them, and the form of the ids in them."
    except NoReverseMatch:
        return "There is no such address."


class ProblemMiddleware(Middleware):
    """Answers errors outside the API's own handlers (unknown address, wrong method) as problem+json too."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        content_type = response.headers.get("Content-Type", "")
        if not request.path.startswith(API) or response.status_code < 400 or content_type.startswith(PROBLEM_TYPE):
            return response
        status = response.status_code
        detail = _no_such_address() if status == 404 else DETAILS.get(status, HTTPStatus(status).phrase)
        problem = respond(status, detail)
        for name in ("Allow", "Retry-After"):
            if name in response.headers:
                problem[name] = response[name]
        return problem


def _of(operation: Any) -> list[str]:
    """The names of an operation's query parameters, in the order of its signature."""
    models = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return [name for model in models for name in model.__ninja_flatten_map__]


def _refusal(unknown: list[str], supported: list[str]) -> Problem:
    """The 422 that names the `unknown` parameters, and those that there are."""
    takes = f"this address takes {', '.join(supported) or 'none'}"
    detail = f"{', '.join(unknown)}: {'is no parameter' if len(unknown) == 1 else 'are no parameters'} here; {takes}"
    return Problem(422, detail, [{"field": name, "reason": f"is no parameter here; {takes}"} for name in unknown])


def known_parameters_only(run: Callable[..., Any]) -> Callable[..., Any]:
    """A django-ninja operation's `run`, with a refusal of unknown query parameters once the caller is let in."""
    operation: Any = run.__self__  # type: ignore[attr-defined]
    supported = _of(operation)

    @functools.wraps(run)
    def checked(request: HttpRequest, **path: Any) -> Any:
        unknown = [name for name in request.GET if name not in supported]
        if not unknown:
            return run(request, **path)
        return operation._run_checks(request) or operation.api.on_exception(request, _refusal(unknown, supported))

    return checked
