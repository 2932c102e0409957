"""Errors of the server in the shape that OpenAI's clients read. Imports without torch."""

from typing import Any

from pydantic import ValidationError


class ApiError(Exception):
    """An error that a client is told: one sentence, an HTTP status, and the parameter at fault if there is one."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    @property
    def document(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}.get(
            self.status, "invalid_request_error" if self.status < 500 else "server_error"
        )
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def of_validation(error: ValidationError) -> ApiError:
    """The first thing that is wrong with a request's document."""
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier()) or None
    said = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{param}: {said}" if param else said, param)
