"""Recorded traffic: CSV with a heading, or JSON Lines, read line by line so that its length does not matter."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.documents.traffic import LONGEST_OUTPUT, LONGEST_PROMPT

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "conversation")
LONGEST_LINE = 100_000


class BrokenRecording(ValueError):
    """A recording cannot be read; the message names the file and the line."""


@dataclass(frozen=True)
class Recorded:
    """One line: seconds since the recording's beginning, lengths in tokens, and the conversation, "" for none."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    conversation: str = ""


def read(file: Path) -> Iterator[Recorded]:
    """The lines of a recording, in order, one at a time. Empty lines and further columns are left out.

    A CSV file has a heading that names `prompt_tokens`, `output_tokens` and, where they are known, `arrival_s` and
    `conversation`; in JSON Lines each line is an object with these keys. Without `arrival_s` every line has 0.
    Raises BrokenRecording for a file that cannot be read, a broken line, and an arrival before the line above it.
    """
    last, number = -math.inf, 0
    for number, row in _rows(file):
        found = _recorded(file, number, row)
        if found.arrival_s < last:
            raise _broken(file, number, f"arrival_s {found.arrival_s:g} is before that of the line above, {last:g}")
        last = found.arrival_s
        yield found
    if last == -math.inf:
        raise BrokenRecording(f"{file}: holds no request")


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            first = lines.read(1)
            lines.seek(0)
            yield from _json_rows(file, lines) if first == "{" else _csv_rows(file, lines)
    except OSError as error:
        raise BrokenRecording(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BrokenRecording(f"{file}: is not text in UTF-8") from None


def _json_rows(file: Path, lines: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    while line := lines.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise _broken(file, number, f"is longer than {LONGEST_LINE:,} characters")
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _broken(file, number, "is no JSON") from None
        if not isinstance(row, dict):
            raise _broken(file, number, "is no object with named fields")
        yield number, row


def _csv_rows(file: Path, lines: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = csv.DictReader(lines)
    try:
        for needed in ("prompt_tokens", "output_tokens"):
            if needed not in (rows.fieldnames or ()):
                raise _broken(file, 1, f"the heading lacks {needed}; it names {', '.join(COLUMNS)}")
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise _broken(file, rows.line_num, f"is no CSV ({error})") from None


def _recorded(file: Path, number: int, row: dict[str, Any]) -> Recorded:
    arrival = _number(file, number, row, "arrival_s") if row.get("arrival_s") not in (None, "") else 0.0
    if arrival < 0:
        raise _broken(file, number, f"arrival_s is {arrival:g}; time begins at 0")
    conversation = row.get("conversation")
    return Recorded(
        arrival,
        _length(file, number, row, "prompt_tokens", LONGEST_PROMPT),
        _length(file, number, row, "output_tokens", LONGEST_OUTPUT),
        "" if conversation is None else str(conversation),
    )


def _length(file: Path, number: int, row: dict[str, Any], name: str, most: int) -> int:
    value = _number(file, number, row, name)
    if value != int(value) or not 1 <= value <= most:
        raise _broken(file, number, f"{name} is {value:g}; a length is a whole number from 1 to {most:,}")
    return int(value)


def _number(file: Path, number: int, row: dict[str, Any], name: str) -> float:
    value = row.get(name)
    try:
        found = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        given = "is missing" if value in (None, "") else f"is no number: {str(value)[:40]!r}"
        raise _broken(file, number, f"{name} {given}")
    return found


def _broken(file: Path, number: int, reason: str) -> BrokenRecording:
    return BrokenRecording(f"{file}: line {number}: {reason}")
