"""The `--sla` file, checked here with the same document that the workbench uses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pydantic

from workbench.api.sentences import Problem, sentence, sentences
from workbench.cli.errors import CliError
from workbench.intake.sla import parse
from workers.documents.quality_text import MAX_CHARACTERS, check_text
from workers.documents.workload import Sla

KEY = "WORKBENCH_ENDPOINT_KEY"
"""The environment variable with the API key of an endpoint, so that it need not stand in a file."""


def read_sla(file: Path, text_file: Path | None = None) -> dict[str, Any]:
    """The SLA as JSON, checked, with what the file states; `text_file` is the quality text, instead of the SLA's.

    The endpoint's key is that of the file, or else of the variable KEY. Raises CliError with one sentence per mistake.
    """
    text = _read(file)
    with mistakes_said(file):
        checked = Sla.model_validate(parse(text, file.name))
        stated = checked.model_dump(mode="json", exclude_unset=True)
    if checked.endpoint:
        key = checked.endpoint.key.get_secret_value() or os.environ.get(KEY, "")
        stated["endpoint"] |= {"key": key} if key else {}
    return stated | ({"quality_text": _quality_text(text_file)} if text_file else {})


@contextmanager
def mistakes_said(file: Path) -> Iterator[None]:
    """Raises CliError, with one sentence per mistake, in place of what reading or checking a file's document raises."""
    try:
        yield
    except Problem as problem:
        raise CliError([sentence(error) for error in problem.errors]) from None
    except pydantic.ValidationError as error:
        raise CliError([sentence(reason) for reason in sentences(error, file.name)]) from None


def read_document(file: Path, what: str) -> Any:
    """The mapping in a YAML or JSON file. `what` it should be is for the sentence about another one. Raises Problem."""
    return parse(_read(file), file.name, f"{what} is a mapping with named fields")


def _quality_text(file: Path) -> str:
    text = _read(file)
    if not text.strip():
        raise CliError(f"{file}: holds no text")
    if len(text) > MAX_CHARACTERS:
        raise CliError(f"{file}: has {len(text):,} characters; a quality text has at most {MAX_CHARACTERS:,}")
    try:
        return check_text(text)
    except ValueError as error:
        raise CliError(f"{file}: {error}") from None


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise CliError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CliError(f"{file}: is not text in UTF-8") from None
