"""Recorded traffic: CSV with a heading, or JSON Lines, read line by line so that its length does not matter."""

import csv
import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from workers.documents.recording import RecordingFacts
from workers.documents.traffic import LONGEST_OUTPUT, LONGEST_PROMPT

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "conversation")
LONGEST_LINE = 100_000
LONGEST_CONVERSATION = 200
MOST_SECONDS = 366 * 86_400
"""The longest time from a recording's first arrival to its last one: 366 days."""
MOST_REQUESTS, MOST_BYTES = 1_000_000, 128 * 2**20
"""The largest recording that may be handed in."""


class InvalidRecording(ValueError):
    """A recording cannot be read. The message is the `file` and the `reason`, which names the line."""

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(file, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.reason}"


@dataclass(slots=True)
class RecordedRequest:
    """One line: seconds since the first line's arrival, lengths in tokens, and the conversation, "" for none."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    conversation: str = ""


def read(file: Path) -> Iterator[RecordedRequest]:
    """The lines of a recording, in order, one at a time. Empty lines and further columns are left out.

    A CSV file has a heading that names `prompt_tokens`, `output_tokens` and, where they are known, `arrival_s` and
    `conversation`; in JSON Lines each line is an object with these keys. `arrival_s` counts from any moment, such as
    the Unix epoch; without it every request arrives at once. Raises InvalidRecording for a file that cannot be read, a
    broken line, and an arrival before the line above it.
    """
    return (request for _, request in _numbered(file))


def facts(file: Path) -> RecordingFacts:
    """What a whole recording holds. Raises what `read` raises, and InvalidRecording where it has too many requests."""
    requests = prompt = output = 0
    seconds = 0.0
    for number, request in _numbered(file):
        requests += 1
        if requests > MOST_REQUESTS:
            raise _broken(file, number, f"has request {requests:,}; a recording has at most {MOST_REQUESTS:,}")
        seconds = request.arrival_s
        prompt, output = max(prompt, request.prompt_tokens), max(output, request.output_tokens)
    return RecordingFacts(requests=requests, seconds=seconds, longest_prompt=prompt, longest_output=output)


def _numbered(file: Path) -> Iterator[tuple[int, RecordedRequest]]:
    first = last = -math.inf
    for number, row in _rows(file):
        arrival = _arrival(file, number, row)
        if arrival < last:
            raise _broken(file, number, f"arrival_s {arrival:g} is before that of the line above, {last:g}")
        last = arrival
        first = last if first == -math.inf else first
        if last - first > MOST_SECONDS:
            raise _broken(file, number, f"arrival_s is {last - first:,.0f} s after the first one, more than a year")
        prompt = _length(file, number, row, "prompt_tokens", LONGEST_PROMPT)
        output = _length(file, number, row, "output_tokens", LONGEST_OUTPUT)
        conversation = _conversation(file, number, row.get("conversation"))
        yield number, RecordedRequest(last - first, prompt, output, conversation)
    if first == -math.inf:
        raise InvalidRecording(file, "holds no request")


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open("rb") as content:
            begins = content.read(len(BOM_UTF8) + 1).removeprefix(BOM_UTF8)
            content.seek(0)
            lines = _Lines(file, content)
            yield from _json_rows(file, lines) if begins.startswith(b"{") else _csv_rows(file, lines)
    except OSError as error:
        raise InvalidRecording(file, error.strerror or str(error)) from None


class _Lines:
    """The lines of a file, numbered from 1. One row may span several, and have LONGEST_LINE bytes at most."""

    def __init__(self, file: Path, content: BinaryIO) -> None:
        self._file, self._content = file, content
        self.number = self.taken = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._content.readline(LONGEST_LINE + 1):
            self.number += 1
            self.taken += len(line.strip())
            if max(len(line), self.taken) > LONGEST_LINE:
                raise _broken(self._file, self.number, f"is longer than {LONGEST_LINE:,} bytes")
            try:
                yield line.decode("utf-8-sig" if self.number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise _broken(self._file, self.number, "is not text in UTF-8") from None


def _json_rows(file: Path, lines: _Lines) -> Iterator[tuple[int, dict[str, Any]]]:
    for line in lines:
        lines.taken = 0
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _broken(file, lines.number, "is no JSON") from None
        if not isinstance(row, dict):
            raise _broken(file, lines.number, "is no object with named fields")
        yield lines.number, row


def _csv_rows(file: Path, lines: _Lines) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = csv.DictReader(lines)
    try:
        for needed in ("prompt_tokens", "output_tokens"):
            if needed not in (rows.fieldnames or ()):
                raise _broken(file, 1, f"the heading lacks {needed}; it names {', '.join(COLUMNS)}")
        for row in rows:
            lines.taken = 0
            if any(row.get(None, ())):  # type: ignore[call-overload]
                raise _broken(file, lines.number, f"has more fields than the heading, {len(rows.fieldnames or ())}")
            yield lines.number, row
    except csv.Error as error:
        raise _broken(file, lines.number, f"is no CSV ({error})") from None


def _arrival(file: Path, number: int, row: dict[str, Any]) -> float:
    arrival = _number(file, number, row, "arrival_s") if row.get("arrival_s") not in (None, "") else 0.0
    if arrival < 0:
        raise _broken(file, number, f"arrival_s is {arrival:g}; time begins at 0")
    return arrival


def _conversation(file: Path, number: int, given: Any) -> str:
    name = "" if given is None else str(given)
    if len(name) > LONGEST_CONVERSATION:
        raise _broken(file, number, f"conversation is longer than {LONGEST_CONVERSATION} characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _broken(file, number, "conversation holds an escape that stands for half of a character") from None
    return name


def _length(file: Path, number: int, row: dict[str, Any], name: str, most: int) -> int:
    value = _number(file, number, row, name)
    if value != int(value) or not 1 <= value <= most:
        raise _broken(file, number, f"{name} is {value:g}; a length is a whole number from 1 to {most:,}")
    return int(value)


def _number(file: Path, number: int, row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    try:
        parsed = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        parsed = math.nan
    if not math.isfinite(parsed):
        problem = "is missing" if value in (None, "") else f"is no number: {str(value)[:40]!r}"
        raise _broken(file, number, f"{name} {problem}")
    return parsed


def _broken(file: Path, number: int, reason: str) -> InvalidRecording:
    return InvalidRecording(file, f"line {number}: {reason}")
