"""Threads that work for another one."""

import contextvars
from collections.abc import Callable


def inheriting(function: Callable[..., None]) -> Callable[..., None]:
    """`function` for another thread, with the context variables of this one, the ids of its log lines among them."""
    context = contextvars.copy_context()
    return lambda *arguments: context.run(function, *arguments)
