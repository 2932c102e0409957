"""The text that a workload names for measuring quality: plain, or one JSON object a line."""

import json
from typing import Any

MOST_CHARACTERS = 131_072
"""The longest text of a workload: about 30,000 tokens of English, seven times what a verdict on quality takes."""
MOST_BYTES = 2 * MOST_CHARACTERS
"""The same in UTF-8: about 87,000 characters of Chinese."""

ChatMessage = dict[str, str]
"""A message of a chat, with `role` and `content`."""
Record = str | list[ChatMessage]
"""A text, or the messages of a chat, which the model's chat template renders."""


def records(text: str) -> list[Record]:
    """The records of a text: one when it is plain, one a line when its first character is `{` (JSON Lines).

    A line is an object with `text`, or with `messages` of `role` and `content`; other keys are left out, and so are
    empty lines. Raises ValueError with the line and the reason.
    """
    if not text.lstrip().startswith("{"):
        return [text] if text.strip() else []
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return [_record(number, line) for number, line in lines]


def check_text(text: str) -> str:
    """The text itself. Raises ValueError for a broken line, for too many bytes, and for what a database cannot keep."""
    if (size := len(text.encode("utf-8", "surrogatepass"))) > MOST_BYTES:
        raise ValueError(f"has {size:,} bytes in UTF-8; at most {MOST_BYTES:,} are taken")
    if "\0" in text:
        raise ValueError(f"line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL character")
    records(text)
    return text


def _record(number: int, line: str) -> Record:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        reason = f"column {error.colno}: broken JSON ({error.msg}); a text that begins with {{ is read as JSON Lines"
        raise ValueError(f"line {number}, {reason}") from None
    except (RecursionError, ValueError):
        raise ValueError(f"line {number} is no JSON that can be read") from None
    record = _content(entry)
    if record is None:
        raise ValueError(f"line {number} needs a text, or messages with role and content, all of them strings")
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"line {number} holds an escape that stands for half of a character") from None
    return record


def _content(record: Any) -> Record | None:
    if not isinstance(record, dict):
        return None
    if isinstance(text := record.get("text"), str):
        return text
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    kept = [_message(message) for message in messages]
    return None if None in kept else [content for content in kept if content is not None]


def _message(message: Any) -> ChatMessage | None:
    if not isinstance(message, dict):
        return None
    kept = {name: message.get(name) for name in ("role", "content")}
    return kept if all(isinstance(value, str) for value in kept.values()) else None  # type: ignore[return-value]
