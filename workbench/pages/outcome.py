"""What the next page says of a change that was asked for."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages


def attempt(request: Any, change: Callable[[], Any], done: str, refusal: type[Exception]) -> None:
    """Makes the change; the next page says that it is `done`, or the sentence of the `refusal` that it raises."""
    try:
        change()
    except refusal as error:
        messages.error(request, str(error))
    else:
        messages.success(request, done)
