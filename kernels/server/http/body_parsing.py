"""What a body says, as a document; what is wrong with it is said in one sentence."""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kernels.server.http.errors import ApiError, of_validation

SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a surrogate pair. By itself it is no character, and no tokenizer takes it."""
Document = TypeVar("Document", bound=BaseModel)


def parse_document(body: bytes, kind: type[Document], longest: int | None = None) -> Document:
    """The body as a document, whose prompts have `longest` tokens at most. Raises ApiError."""
    with _gc_paused():
        try:
            return kind.model_validate(parse_json(body), context={"longest": longest})
        except ValidationError as error:
            wrong = of_validation(error)  # it is raised later, so that nothing keeps the document
    raise wrong


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Keeps Python from looking for cycles meanwhile. A body of 8 MiB may hold a million lists, and has no cycle; their
    number would make it look again and again, while everybody's answers wait.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def parse_json(body: bytes) -> Any:
    """What a body says. Raises ApiError with one sentence."""
    try:
        text = body.decode("utf-8-sig")  # json decodes bytes less strictly
        document = json.loads(text, parse_constant=_refuse_constant)
        if SURROGATE.search(body):
            json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        reason = f"it breaks off or goes wrong at line {error.lineno}, column {error.colno}"
        raise ApiError(400, f"the body is no valid JSON: {reason}") from error
    except UnicodeDecodeError as error:
        raise ApiError(400, "the body is no valid JSON: it is not written in UTF-8") from error
    except UnicodeEncodeError as error:
        raise ApiError(400, "the body holds half of a surrogate pair, which is no character") from error
    except RecursionError as error:
        raise ApiError(400, "the body is nested too deeply") from error
    except ValueError as error:
        raise ApiError(400, "the body holds a number that is not finite, or has too many digits") from error
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
