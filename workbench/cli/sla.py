"""The `--sla` file, checked here with the same document that the workbench uses."""

from pathlib import Path
from typing import Any

import pydantic

from workbench.api.sentences import Problem, sentence, sentences
from workbench.cli.errors import CliError
from workbench.intake.sla import parse
from workers.documents.workload import Sla


def read_sla(file: Path) -> dict[str, Any]:
    """The SLA as JSON, checked, with what the file states. Raises CliError with one sentence per mistake."""
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise CliError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CliError(f"{file}: is not text in UTF-8") from None
    try:
        return Sla.model_validate(parse(text, file.name)).model_dump(mode="json", exclude_unset=True)
    except Problem as problem:
        raise CliError([sentence(error) for error in problem.errors]) from None
    except pydantic.ValidationError as error:
        raise CliError([sentence(reason) for reason in sentences(error, file.name)]) from None
