"""The text that a workload names for measuring quality: plain, one JSON object a line, or a JSON array of objects."""

import json
import re
from typing import Any

MAX_CHARACTERS = 131_072
"""The longest text of a workload: about 30,000 tokens of English, seven times what a verdict on quality takes."""
MAX_BYTES = 2 * MAX_CHARACTERS
"""The same in UTF-8: about 87,000 characters of Chinese."""

ChatMessage = dict[str, str]
Record = str | list[ChatMessage]
"""A text, or the messages of a chat, which the model's chat template renders."""


ENTRIES = re.compile(r"\s*(\{|\[\s*\{)")
"""How a text begins that is read as JSON."""
ROLES = {"human": "user", "gpt": "assistant"}
"""Roles by their names in ShareGPT's form; the others have the same."""
NEEDED = "needs a text, or messages with role and content (conversations with from and value), all of them strings"


def records(text: str) -> list[Record]:
    """The records of a text: one when it is plain, one a line when it begins with `{` (JSON Lines, which end a line at
    a line feed alone), and one for each object of a JSON array.

    A record is an object with `text`, with `messages` of `role` and `content`, or with `conversations` of `from` and
    `value` (ShareGPT's form); other keys are left out, and so are empty lines. Raises ValueError with the place and the
    reason.
    """
    text = text.removeprefix("\ufeff")
    begin = ENTRIES.match(text)
    if begin is None:
        return [text] if text.strip() else []
    if begin[1].startswith("["):
        return [_record(f"entry {number}", entry) for number, entry in enumerate(_parsed(text), 1)]
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [_record(f"line {number}", _parsed(line, number)) for number, line in lines]


def check_text(text: str) -> str:
    """The text itself. Raises ValueError for a broken line, for too many bytes, and for what a database cannot keep."""
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MAX_BYTES:
        raise ValueError(f"has {size:,} bytes in UTF-8; at most {MAX_BYTES:,} are taken")
    if "\0" in text:
        raise ValueError(f"line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL character")
    records(text)
    return text


def _parsed(text: str, line: int = 0) -> Any:
    """The JSON of a line, or of the whole text where `line` is 0."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        begins, form = ("{", "JSON Lines") if line else ("[{", "a JSON array")
        place = f"line {line or error.lineno}, column {error.colno}"
        reason = f"broken JSON ({error.msg}); a text that begins with {begins} is read as {form}"
        raise ValueError(f"{place}: {reason}") from None
    except (RecursionError, ValueError):
        raise ValueError(f"{f'line {line}' if line else 'it'} is no JSON that can be read") from None


def _record(place: str, entry: Any) -> Record:
    record = _content(entry)
    if record is None:
        raise ValueError(f"{place} {NEEDED}")
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{place} holds an escape that stands for half of a character") from None
    return record


def _content(record: Any) -> Record | None:
    if not isinstance(record, dict):
        return None
    if isinstance(text := record.get("text"), str):
        return text
    messages = record.get("messages") or record.get("conversations")
    if not isinstance(messages, list) or not messages:
        return None
    kept = [_message(message) for message in messages]
    return None if None in kept else [content for content in kept if content is not None]


def _message(message: Any) -> ChatMessage | None:
    if not isinstance(message, dict):
        return None
    role, content = message.get("role", message.get("from")), message.get("content", message.get("value"))
    if not isinstance(role, str) or not isinstance(content, str):
        return None
    return {"role": ROLES.get(role, role), "content": content}
