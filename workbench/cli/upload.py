"""Uploads a model directory or a recording: hashes it, sends it in chunks, and resumes an interrupted upload."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from kernels.model_files import ModelRefused, inspect, select_files, select_in
from workbench.api.sentences import sentence
from workbench.cli.client import ApiClient, refusal
from workbench.cli.consoles import err
from workbench.cli.errors import CliError, Exit
from workers.loadtest.recording import InvalidRecording, facts

READ_BYTES = 2**20
MAX_CHUNK_BYTES = 16 * 2**20
PATIENCE = 8
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.2, 3.0
"""Between two questions whether the files are checked."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the step, the bytes done and the bytes in total."""


@dataclass(frozen=True)
class LocalFile:
    """A file of the model directory; `path` is relative, with `/`."""

    path: str
    where: Path
    size: int
    sha256: str


def read_directory(source: Path, on_progress: ProgressCallback) -> list[LocalFile]:
    """The files that are read of a model directory, or its GGUF file, checked, then hashed; says which are left out.
    Raises CliError.
    """
    single = source.is_file() and source.suffix == ".gguf"
    directory = source.parent if single else source
    try:
        selection = select_files([source.name]) if single else select_in(directory)
        inspect({path: directory / path for path in selection.files})
    except ModelRefused as error:
        raise CliError([f"{source}: {sentence(reason)}" for reason in error.reasons]) from None
    if selection.left_out:
        _tell(f"Left out, as the model is read without them: {', '.join(selection.left_out)}.")
    paths = {path: directory / path for path in selection.files}
    total, done = sum(where.stat().st_size for where in paths.values()), 0
    files = []
    for path, where in paths.items():
        hashed = hashlib.sha256()
        with where.open("rb") as stream:
            while chunk := stream.read(READ_BYTES):
                hashed.update(chunk)
                done += len(chunk)
                on_progress("hashing", done, total)
        files.append(LocalFile(path, where, where.stat().st_size, hashed.hexdigest()))
    return files


def _tell(line: str) -> None:
    err.print(line, highlight=False, markup=False, soft_wrap=True)


def upload(api: ApiClient, source: Path, on_progress: ProgressCallback) -> dict[str, Any]:
    """Uploads the directory or GGUF file unless the organisation has the same files already. Returns the model."""
    files = read_directory(source, on_progress)
    model = _known_model(api, files)
    if model is None:
        entry = _open_upload(api, source.resolve().name.removesuffix(".gguf"), files, "model")
        _send(api, entry, files, on_progress)
        model = _finish(api, entry)["model"]
    for note in model["notes"]:
        _tell(note)
    return model


def upload_recording(api: ApiClient, file: Path, on_progress: ProgressCallback) -> str:
    """Hands a recording of traffic in, unless the organisation has it already. Returns its SHA-256.

    Raises CliError where a line is broken, before anything is sent.
    """
    try:
        holds = facts(file)
    except InvalidRecording as error:
        raise CliError(str(error)) from None
    _tell(" ".join([f"{file.name}: {holds.words}.", *holds.notes]))
    with file.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    local = [LocalFile(file.name, file, file.stat().st_size, sha256)]
    if all(row["sha256"] != sha256 for row in api.rows("/recordings", limit=1000)):
        entry = _open_upload(api, file.name, local, "recording")
        _send(api, entry, local, on_progress)
        _finish(api, entry)
    return sha256


def _send(api: ApiClient, entry: dict[str, Any], files: list[LocalFile], on_progress: ProgressCallback) -> None:
    """Sends what is missing of each file. config.json goes first: the server checks it while the weights are sent."""
    local = {file.path: file for file in files}
    total = sum(file.size for file in files)
    done = sum(row["received"] for row in entry["files"])
    chunk_bytes = min(entry["chunk_bytes"], MAX_CHUNK_BYTES)
    for row in sorted(entry["files"], key=lambda row: row["path"] != "config.json"):
        address = f"/uploads/{entry['id']}/files/{row['number']}"
        before, file = done - row["received"], local[row["path"]]
        for offset in _send_file(api, address, file, row["received"], chunk_bytes):
            on_progress("sending", before + offset, total)
        done = before + file.size


def _finish(api: ApiClient, entry: dict[str, Any]) -> dict[str, Any]:
    """Has the server check the files; the upload with what came of it. Raises CliError where it is refused."""
    upload = api.post(f"/uploads/{entry['id']}/finish", {"files": []})
    wait = FIRST_WAIT_SECONDS
    while upload["state"] == "checking":
        time.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT_SECONDS)
        upload = api.get(f"/uploads/{entry['id']}")
    if upload["state"] != "finished":
        raise refusal(upload["problem"], upload["problem"]["status"])
    return upload  # type: ignore[no-any-return]


def _known_model(api: ApiClient, files: list[LocalFile]) -> dict[str, Any] | None:
    """A model of the organisation with the very same files."""
    ours = {(file.path, file.sha256) for file in files}
    rows = api.rows("/models", limit=1000)
    return next((row for row in rows if {(file["path"], file["sha256"]) for file in row["files"]} == ours), None)


def _open_upload(api: ApiClient, name: str, files: list[LocalFile], holds: str) -> dict[str, Any]:
    """An interrupted upload of the same files, or a new one."""
    ours = {(file.path, file.size, file.sha256) for file in files}
    for entry in api.rows("/uploads", limit=200):
        theirs = {(row["path"], row["size"], row.get("sha256", "")) for row in entry["files"]}
        if theirs == ours:
            return entry
    listed = [{"path": file.path, "size": file.size, "sha256": file.sha256} for file in files]
    return api.post("/uploads", {"name": name[:120], "holds": holds, "files": listed})  # type: ignore[no-any-return]


def _send_file(api: ApiClient, address: str, file: LocalFile, offset: int, chunk_bytes: int) -> Iterator[int]:
    """Sends the file from `offset` on; yields how far it is."""
    failures = 0
    with file.where.open("rb") as stream:
        while offset < file.size:
            stream.seek(offset)
            chunk = stream.read(min(chunk_bytes, file.size - offset))
            if not chunk:
                raise CliError(f"{file.path}: became shorter while it was sent.")
            response = api.send(address, offset, chunk)
            if response is None:
                failures += 1
                if failures > PATIENCE:
                    raise CliError(
                        f"{file.path}: the connection keeps breaking at byte {offset:,}; "
                        "submit again to go on from there.",
                        Exit.FAILED,
                    )
                time.sleep(min(2**failures / 8, 10))
                offset = api.get(address)["received"]
                continue
            moved = int(response.headers["Upload-Offset"])
            failures = 0 if moved > offset else failures + 1
            if failures > PATIENCE:
                raise CliError(f"{file.path}: another upload is writing this file.", Exit.FAILED)
            offset = moved
            yield offset


def model_reference(api: ApiClient, model: str) -> str:
    """The name or digest of the model for the workload document. What lies on this machine is uploaded first."""
    path = Path(model)
    if not path.is_dir() and not (path.is_file() and model.endswith(".gguf")):
        if path.exists():
            raise CliError(f"{model}: is a file; give the model's directory, or a GGUF file.")
        if model.startswith((".", "/", "~")):
            raise CliError(f"{model}: there is no such file or directory.")
        return model
    with _bars() as on_progress:
        return str(upload(api, path, on_progress)["content_digest"])


def recording_reference(api: ApiClient, folder: Path, recording: str) -> str:
    """The SHA-256 of a recording for the workload document. A file, named as seen from `folder`, is handed in first."""
    file = folder / recording
    if re.fullmatch("[0-9a-f]{64}", recording) and not file.exists():
        return recording
    with _bars() as on_progress:
        return upload_recording(api, file, on_progress)


@contextmanager
def _bars() -> Iterator[ProgressCallback]:
    """Shows how far an upload is, a bar for each step."""
    columns = (TextColumn("{task.description:>9}"), BarColumn(bar_width=24), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=err) as progress:
        bars: dict[str, Any] = {}

        def on_progress(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done)

        yield on_progress
