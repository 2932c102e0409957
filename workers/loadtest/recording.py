"""Recorded traffic: CSV with a heading, or JSON Lines, read line by line so that its length does not matter.

The fields have names of their own, and those that published traces give them: Azure's (`TIMESTAMP`, `ContextTokens`,
`GeneratedTokens`), BurstGPT's (`Timestamp`, `Request tokens`, `Response tokens`, `Session ID`), Mooncake's, Bailian's,
guidellm's and aiperf's (`timestamp`, `input_length`, `output_length`, `session_id`).
"""

import csv
import itertools
import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from workers.documents.recording import RecordingFacts
from workers.documents.traffic import LONGEST_OUTPUT, LONGEST_PROMPT

ARRIVAL = ("arrival_s", "timestamp_ms", "timestamp", "Timestamp", "TIMESTAMP")
PROMPT = ("prompt_tokens", "input_length", "input_tokens", "ContextTokens", "Request tokens")
OUTPUT = ("output_tokens", "output_length", "GeneratedTokens", "Response tokens")
CONVERSATION = ("conversation", "session_id", "Session ID")
NO_ARRIVALS = "has no arrivals to replay: its arrival_s are missing or all the same"
DELIMITERS = ",;\t"
SHOWN_CHARACTERS = 200
LONGEST_LINE = 100_000
LONGEST_CONVERSATION = 200
MAX_SECONDS = 366 * 86_400
"""The longest time from a recording's first arrival to its last one: 366 days."""
MAX_REQUESTS, MAX_BYTES = 1_000_000, 128 * 2**20
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
    """The lines of a recording, in order, one at a time.

    A CSV file has a heading that names `prompt_tokens`, `output_tokens` and, where they are known, `arrival_s` and
    `conversation`; in JSON Lines each line is an object with these keys. `arrival_s` counts from any moment, such as
    the Unix epoch; without it every request arrives at once. Empty lines, further columns and requests of 0 tokens,
    which are those that failed, are left out. Raises InvalidRecording for a file that cannot be read, a broken line,
    and an arrival before the line above it.
    """
    return (request for _, request in _Requests(file))


def facts(file: Path, until_s: float = math.inf) -> RecordingFacts:
    """What a recording holds up to `until_s` after its first arrival. Raises as `read`, and for too many requests."""
    read_requests = _Requests(file)
    requests = prompt = output = 0
    seconds = 0.0
    for number, request in read_requests:
        if request.arrival_s > until_s:
            seconds = until_s
            break
        requests += 1
        if requests > MAX_REQUESTS:
            raise _broken(file, number, f"has request {requests:,}; a recording has at most {MAX_REQUESTS:,}")
        seconds = request.arrival_s
        prompt, output = max(prompt, request.prompt_tokens), max(output, request.output_tokens)
    return RecordingFacts(
        requests=requests, seconds=seconds, longest_prompt=prompt, longest_output=output, notes=read_requests.notes
    )


class _Requests:
    """The requests of a file, each with the number of its line."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clock = _Clock("", 1.0)
        self._left_out = 0

    def __iter__(self) -> Iterator[tuple[int, RecordedRequest]]:
        file, first, last, above = self._file, -math.inf, -math.inf, None
        for number, row in _rows(file):
            if last == -math.inf:
                self._clock = _Clock.of(row)
            name, arrival = self._clock.name, self._clock.read(file, number, row)
            if arrival < last:
                reason = f"{name} {row.get(name)!s:.40} is before that of the line above, {above!s:.40}"
                raise _broken(file, number, reason)
            last, above = arrival, row.get(name)
            prompt = _length(file, number, row, PROMPT, LONGEST_PROMPT)
            output = _length(file, number, row, OUTPUT, LONGEST_OUTPUT)
            if not prompt or not output:
                self._left_out += 1
                continue
            first = last if first == -math.inf else first
            if last - first > MAX_SECONDS:
                raise _broken(file, number, f"{name} is {last - first:,.0f} s after the first one, more than a year")
            conversation = _conversation(file, number, row.get(_name(row, CONVERSATION)))
            yield number, RecordedRequest(last - first, prompt, output, conversation)
        if first == -math.inf:
            raise InvalidRecording(file, "holds no request")

    @property
    def notes(self) -> list[str]:
        """How arrivals were read, where they are not `arrival_s`, and how many requests were left out."""
        left_out = f"{self._left_out:,} request{'s' if self._left_out > 1 else ''} of 0 tokens left out."
        return [*filter(None, [self._clock.note]), *([left_out] if self._left_out else [])]


@dataclass(frozen=True)
class _Clock:
    """The field of arrivals, "" where there is none, and what one of its units is in seconds; 0: they are dates."""

    name: str
    seconds: float
    note: str = ""

    @classmethod
    def of(cls, row: dict[str, Any]) -> "_Clock":
        """The clock by the first row.

        The same names stand for seconds in the traces of guidellm and Bailian and for milliseconds in those of Mooncake
        and aiperf, which have `hash_ids`. Where nothing tells, seconds are taken, which never sends too fast.
        """
        name = _name(row, ARRIVAL)
        value = row.get(name)
        if value in (None, ""):
            return cls("", 1.0)
        if name == "arrival_s":
            return cls(name, 1.0)
        if isinstance(value, str) and ":" in value:
            return cls(name, 0.0, f"Arrivals are the dates in {name}.")
        if name == "timestamp_ms" or ("hash_ids" in row and "chat_id" not in row):
            return cls(name, 1e-3, f"Arrivals are the milliseconds in {name}.")
        rename = "" if "chat_id" in row else " Name it timestamp_ms where it holds milliseconds."
        return cls(name, 1.0, f"Arrivals are the seconds in {name}.{rename}")

    def read(self, file: Path, number: int, row: dict[str, Any]) -> float:
        """When the request of a row arrived, in seconds; 0 where the first row does not say when its did."""
        if not self.name:
            return 0.0
        if not self.seconds:
            return _date(file, number, row, self.name)
        arrival = _number(file, number, row, self.name) * self.seconds
        if arrival < 0:
            raise _broken(file, number, f"{self.name} is {arrival:g}; time begins at 0")
        return arrival


def _date(file: Path, number: int, row: dict[str, Any], name: str) -> float:
    """A date and time as seconds of the Unix epoch, in UTC unless it says another zone."""
    text = str(row.get(name)).strip()
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise _broken(file, number, f"{name} is no date: {text[:40]!r}") from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _name(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """The first of a field's names that a row has."""
    return next((name for name in names if name in row), names[0])


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open("rb") as content:
            begins = content.read(len(BOM_UTF8) + 1).removeprefix(BOM_UTF8)
            content.seek(0)
            lines = _Lines(file, content)
            if begins.startswith(b"["):
                raise InvalidRecording(file, "is a JSON array; a recording in JSON Lines has one object on each line")
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
    text = iter(lines)
    heading = next((line for line in text if line.strip()), "")
    delimiter = max(DELIMITERS, key=heading.count)
    rows = csv.DictReader(itertools.chain([heading], text), delimiter=delimiter, skipinitialspace=True)
    try:
        names = rows.fieldnames = [name.strip() for name in rows.fieldnames or ()]
        if names and not ({*PROMPT} & {*names} and {*OUTPUT} & {*names}):
            shown = ", ".join(names)[:SHOWN_CHARACTERS]
            raise _broken(file, 1, f"the heading names {shown}; it needs {PROMPT[0]} and {OUTPUT[0]}")
        for row in rows:
            lines.taken = 0
            if any(row.get(None, ())):  # type: ignore[call-overload]
                raise _broken(file, lines.number, f"has more fields than the heading, {len(rows.fieldnames or ())}")
            yield lines.number, row
    except csv.Error as error:
        raise _broken(file, lines.number, f"is no CSV ({error})") from None


def _conversation(file: Path, number: int, given: Any) -> str:
    name = "" if given is None else str(given)
    if len(name) > LONGEST_CONVERSATION:
        raise _broken(file, number, f"conversation is longer than {LONGEST_CONVERSATION} characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _broken(file, number, "conversation holds an escape that stands for half of a character") from None
    return name


def _length(file: Path, number: int, row: dict[str, Any], names: tuple[str, ...], most: int) -> int:
    name = _name(row, names)
    value = _number(file, number, row, name)
    if value != int(value) or not 0 <= value <= most:
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
