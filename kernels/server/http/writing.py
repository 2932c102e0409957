"""The JSON of an answer with many choices or vectors, written while others get their turns."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def piece_by_piece(document: Any) -> bytes:
    """The JSON of a document, for a thread: in one piece its encoder keeps the interpreter's lock until its end."""
    return "".join(json.JSONEncoder(ensure_ascii=False).iterencode(document)).encode()


async def with_list(name: str, elements: Iterable[Any], others: dict[str, Any]) -> bytes:
    """An object of `others` and a list `name` of elements; others get a turn behind each, which takes time."""
    written = []
    for element in elements:
        written.append(_encode(element))
        await asyncio.sleep(0)
    return f'{_encode(others)[:-1]},"{name}":[{",".join(written)}]}}'.encode()
