"""Query parameters that an operation of the API does not have are refused: a misspelt filter would show everything."""

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from workbench.api.sentences import Problem


def _of(operation: Any) -> list[str]:
    """The names of an operation's query parameters, in the order of its signature."""
    models = [model for model in operation.models if model.__ninja_param_source__ == "query"]
    return [name for model in models for name in model.__ninja_flatten_map__]


def _refusal(unknown: list[str], known: list[str]) -> Problem:
    """The 422 that names the `unknown` parameters, and those that there are."""
    takes = f"this address takes {', '.join(known) or 'none'}"
    detail = f"{', '.join(unknown)}: {'is no parameter' if len(unknown) == 1 else 'are no parameters'} here; {takes}"
    return Problem(422, detail, [{"field": name, "reason": f"is no parameter here; {takes}"} for name in unknown])


def known_parameters_only(run: Callable[..., Any]) -> Callable[..., Any]:
    """A django-ninja operation's `run`, with a refusal of unknown query parameters once the caller is let in."""
    operation: Any = run.__self__  # type: ignore[attr-defined]
    known = _of(operation)

    @functools.wraps(run)
    def checked(request: HttpRequest, **path: Any) -> Any:
        unknown = [name for name in request.GET if name not in known]
        if not unknown:
            return run(request, **path)
        return operation._run_checks(request) or operation.api.on_exception(request, _refusal(unknown, known))

    return checked
