"""What a workload document names: a model and a recording. Those that lie on this machine are handed in first."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from workbench.cli.client import ApiClient
from workbench.cli.consoles import err
from workbench.cli.errors import CliError
from workbench.cli.upload import Say, upload, upload_recording


def model_reference(api: ApiClient, model: str) -> str:
    """The name or digest of the model for the workload document. What lies on this machine is uploaded first."""
    path = Path(model)
    if not path.is_dir() and not (path.is_file() and model.endswith(".gguf")):
        if path.exists():
            raise CliError(f"{model}: is a file; give the model's directory, or a GGUF file.")
        if model.startswith((".", "/", "~")):
            raise CliError(f"{model}: there is no such file or directory.")
        return model
    with _bars() as say:
        return str(upload(api, path, say)["content_digest"])


def recording_reference(api: ApiClient, folder: Path, recording: str) -> str:
    """The SHA-256 of a recording for the workload document. A file, named as seen from `folder`, is handed in first."""
    file = folder / recording
    if re.fullmatch("[0-9a-f]{64}", recording) and not file.exists():
        return recording
    with _bars() as say:
        return upload_recording(api, file, say)


@contextmanager
def _bars() -> Iterator[Say]:
    """Shows how far an upload is, a bar for each step."""
    columns = (TextColumn("{task.description:>9}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err) as progress:
        bars: dict[str, Any] = {}

        def say(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done)

        yield say
