"""The API's schemas of models, uploads and workloads."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.conf import settings
from ninja import Field, Schema

from workbench.api.problems import ProblemDocument
from workbench.intake.models import LONGEST_PROJECT, Model, Recording, Upload, Workload
from workbench.short_text import ShortText
from workers.documents.base import Document
from workers.documents.model import Kind, ModelFile
from workers.documents.recording import Recording as RecordingDocument
from workers.documents.workload import Workload as WorkloadDocument

MAX_PATHS = 10_000
"""More than a model may have: those that are left out are named too."""
Path = Annotated[str, Field(max_length=1000)]
SHA256 = r"^[0-9a-f]{64}$"


class ModelOut(Schema):
    """A model of the organisation. Sizes in bytes.

    A workload names it by `content_digest`, which covers all its files. `digest` covers what changes its outputs and
    names it in plans; a workload may also give that, and gets the newest model that has it.

    `notes` say what of its files is ignored. `unreadable` says why this version cannot read the stored manifest; what
    the manifest says is then null.
    """

    id: UUID
    name: str
    digest: str
    content_digest: str
    source: str | None = None
    kind: Kind | None = None
    architecture: str | None = None
    model_type: str | None = None
    parameters: int | None = None
    weight_bytes: int | None = None
    generated: bool | None = None
    has_tokenizer: bool | None = None
    quantised: str | None = Field(None, description="the format of weights that are dequantised to bf16")
    notes: list[str] = []
    size: int
    files: list[ModelFile] = []
    created_at: datetime
    unreadable: str = ""


def model_out(model: Model) -> dict[str, Any]:
    """A Model as ModelOut."""
    facts, unreadable = model.reading
    fields = {"id": model.id, "name": model.name, "digest": model.digest, "size": model.size}
    fields["content_digest"] = model.content_digest
    more = {"created_at": model.created_at, "unreadable": unreadable}
    return (facts.model_dump(exclude={"config"}) if facts else {}) | fields | more


class CatalogueEntry(Schema):
    """A known configuration; a workload names it by `name`, and its weights come from a seed."""

    name: str
    summary: str
    kind: Kind
    architecture: str
    model_type: str
    parameters: int
    weight_bytes: int


class NewFile(Document):
    """A file of a new upload, with its path in the model's folder."""

    path: Path
    size: int = Field(ge=0)
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$", description="may be sent at the end instead")


class NewUpload(Document):
    """A new upload: the model's name and its files, or a recording of traffic, which is one file."""

    holds: Literal["model", "recording"] = Field("model", description="what it becomes when it is finished")
    name: ShortText = Field(min_length=1, max_length=120)
    files: list[NewFile] = Field(min_length=1, max_length=MAX_PATHS)


class Folder(Document):
    """The paths of the files in a model's folder; `shards` are those that its model.safetensors.index.json names."""

    paths: list[Path] = Field(max_length=MAX_PATHS)
    shards: list[Path] | None = Field(None, max_length=MAX_PATHS)


class SelectionOut(Schema):
    """The files that are read. Of those that are left out the names at the folder's top, folders with a slash."""

    files: list[str]
    left_out: list[str]


class UploadFileOut(Schema):
    """One file: PATCH its bytes to `/uploads/{id}/files/{number}`, the next one is number `received`."""

    number: int
    path: str
    size: int
    received: int
    sha256: str = Field("", description="as announced, so that a client can tell which upload to resume")


class RecordingOut(RecordingDocument):
    """A recording of traffic. A workload names it by `sha256` in `traffic.recording`; it goes with that workload."""

    created_at: datetime


def recording_out(recording: Recording) -> dict[str, Any]:
    """A Recording as RecordingOut."""
    return recording.document.model_dump() | {"created_at": recording.created_at}


class UploadOut(Schema):
    """An upload; a PATCH may carry up to `chunk_bytes`.

    `state` becomes `checking` when it is finished, then `finished`, with the `model` or the `recording`, or `refused`:
    then nothing of it is kept. It is `receiving` again where it could not be checked. `problem` says why.
    """

    id: UUID
    name: str
    chunk_bytes: int
    state: Literal["receiving", "checking", "finished", "refused"]
    model: ModelOut | None = None
    recording: RecordingOut | None = None
    problem: ProblemDocument | None = None
    files: list[UploadFileOut] = Field(description="none once it has ended")
    left_out: list[str] = Field(description="of a new upload: what is never read, folders with a slash")
    created_at: datetime


def upload_out(upload: Upload) -> dict[str, Any]:
    """An Upload as UploadOut."""
    return {
        "id": upload.id,
        "name": upload.name,
        "chunk_bytes": settings.UPLOAD_CHUNK_BYTES,
        "state": upload.state,
        "model": upload.model and model_out(upload.model),
        "recording": upload.recording and recording_out(upload.recording),
        "problem": upload.problem,
        "files": list(upload.files.all()),
        "left_out": upload.left_out,
        "created_at": upload.created_at,
    }


class FileHash(Document):
    """The SHA-256 that a file's content must have."""

    path: str
    sha256: str = Field(pattern=SHA256)


class Finish(Document):
    """The SHA-256 of every file that did not announce it."""

    files: list[FileHash] = []


class WorkloadLabels(Document):
    """What a workload is grouped by; "" takes it out of its project."""

    project: ShortText = Field(max_length=LONGEST_PROJECT)


class ModelRef(Schema):
    id: UUID
    name: str
    digest: str


class WorkloadOut(Schema):
    """A workload; `document` is what was handed in, with every default filled in."""

    id: UUID
    name: str
    model: ModelRef
    project: str
    document: WorkloadDocument | None = Field(description="null when `unreadable` says why")
    unreadable: str = ""
    runs: list[UUID] = Field(description="its 25 newest runs, newest first; GET /runs?workload= lists all")
    created_at: datetime


def workload_out(workload: Workload) -> dict[str, Any]:
    """A Workload as WorkloadOut."""
    model = workload.model
    document, unreadable = workload.reading
    return {
        "id": workload.id,
        "name": workload.name,
        "model": {"id": model.id, "name": model.name, "digest": model.digest},
        "project": workload.project,
        "document": document,
        "unreadable": unreadable,
        "runs": [run.id for run in workload.newest_runs],
        "created_at": workload.created_at,
    }
