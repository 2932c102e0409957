"""What people read of an exception."""

from pydantic import ValidationError

MAX_ERROR_LENGTH = 300


def error_sentence(error: BaseException) -> str:
    """One line about an exception: the start of its message, then its type, without a traceback."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    lines = str(error).strip().splitlines()
    kind = type(error).__name__
    return f"{lines[0][:MAX_ERROR_LENGTH].rstrip('.')} ({kind})" if lines else f"no message ({kind})"
