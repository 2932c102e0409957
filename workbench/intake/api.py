"""The API of models, uploads and workloads."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Status

from workbench.accounts.permissions import submitter_required
from workbench.api.pagination import Page, PageQuery, page
from workbench.api.problems import respond
from workbench.api.sentences import Problem, invalid
from workbench.intake import schemas
from workbench.intake.models import LONGEST_PROJECT, Model, Recording, Upload, UploadFile, Workload
from workbench.intake.services import catalogue, receiving, recordings, uploads
from workbench.intake.services.workloads import create_workload
from workers.documents.workload import Workload as WorkloadDocument

router = Router()


@router.get("/catalogue", response=list[schemas.CatalogueEntry], tags=["models"], summary="Known configurations")
def list_catalogue(request: Any) -> list[dict[str, Any]]:
    """Models that need no upload: name one in a workload."""
    return [{"name": name, "summary": summary} | facts.model_dump() for name, summary, facts in catalogue.entries()]


@router.get("/models", response=Page[schemas.ModelOut], tags=["models"], summary="The organisation's models")
def list_models(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """Uploaded models, and catalogue entries that a workload has used."""
    return page(Model.objects.for_user(request.user), query, schemas.model_out, one_by_one=True)


@router.get("/models/{model_id}", response=schemas.ModelOut, tags=["models"], summary="One model")
def read_model(request: Any, model_id: UUID) -> dict[str, Any]:
    """The facts that the model's files state."""
    return schemas.model_out(get_object_or_404(Model.objects.for_user(request.user), pk=model_id))


@router.post("/uploads/selection", response=schemas.SelectionOut, tags=["uploads"], summary="Which files are read")
@submitter_required
def select_files(request: Any, body: schemas.Folder) -> dict[str, Any]:
    """Of a folder's files those that an upload would take, and those that it would leave out, before anything is sent.

    A 422 names all that stands against an upload by the names alone.
    """
    return uploads.select(body.paths, body.shards)._asdict()


@router.post("/uploads", response={201: schemas.UploadOut}, tags=["uploads"], summary="Announce an upload")
@submitter_required
def create_upload(request: Any, body: schemas.NewUpload) -> Status[dict[str, Any]]:
    """Names the files of a model directory, or a recording of traffic, and their sizes.

    Files of a model directory that are never read are left out: `files` of the answer are those to send. PATCH each
    one's bytes, those of a model's config.json first, then finish: a worker checks the files and makes a model or a
    recording of them.
    """
    files = [uploads.AnnouncedFile(file.path, file.size, file.sha256) for file in body.files]
    if body.holds == "recording":
        if len(files) != 1:
            raise invalid([{"field": "files", "reason": "a recording is one file"}])
        return Status(201, schemas.upload_out(recordings.announce(request.organisation, request.user, files[0])))
    upload = uploads.create(request.organisation, request.user, body.name, files)
    return Status(201, schemas.upload_out(upload))


@router.get("/uploads", response=Page[schemas.UploadOut], tags=["uploads"], summary="Uploads under way")
def list_uploads(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """Uploads that have not ended, to be resumed."""
    return page(Upload.objects.for_user(request.user).open().prefetch_related("files"), query, schemas.upload_out)


@router.get("/uploads/{upload_id}", response=schemas.UploadOut, tags=["uploads"], summary="How far an upload is")
def read_upload(request: Any, upload_id: UUID) -> dict[str, Any]:
    """Every file with the number of bytes that have come; after the end, for a day, what became of the upload.

    While `state` is `checking`, ask again.
    """
    return schemas.upload_out(_upload(request, upload_id))


@router.api_operation(["HEAD"], "/uploads/{upload_id}/files/{number}", include_in_schema=False)
def head_upload_file(request: Any, upload_id: UUID, number: int, response: HttpResponse) -> None:
    """The same headers without a body."""
    read_upload_file(request, upload_id, number, response)


@router.get(
    "/uploads/{upload_id}/files/{number}",
    response=schemas.UploadFileOut,
    tags=["uploads"],
    summary="Where to go on with a file",
)
def read_upload_file(request: Any, upload_id: UUID, number: int, response: HttpResponse) -> UploadFile:
    """The header `Upload-Offset` (and `received`) says which byte comes next; HEAD gives the header alone."""
    file = get_object_or_404(UploadFile, upload=_upload(request, upload_id), number=number)
    response["Upload-Offset"] = str(file.received)
    response["Cache-Control"] = "no-store"
    return file


@router.patch(
    "/uploads/{upload_id}/files/{number}",
    response={200: schemas.UploadFileOut},
    tags=["uploads"],
    summary="Send bytes of a file",
    openapi_extra={
        "parameters": [
            {"in": "header", "name": "Upload-Offset", "required": True, "schema": {"type": "integer", "minimum": 0}}
        ],
        "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
@submitter_required
def send_bytes(request: Any, upload_id: UUID, number: int, response: HttpResponse) -> Any:
    """The body goes at `Upload-Offset`; a 409 carries the right offset in the same header.

    A model's config.json is checked as soon as it has come. A 422 of a later request says why it is refused; the upload
    has then ended, and nothing of it is kept.
    """
    upload = _upload(request, upload_id)
    try:
        file = receiving.append(upload, number, _offset(request), request, _length(request))
    except receiving.WrongOffset as error:
        problem = respond(error.status, error.detail, error.errors)
        problem["Upload-Offset"] = str(error.offset)
        return problem
    response["Upload-Offset"] = str(file.received)
    return file


@router.post("/uploads/{upload_id}/finish", response={202: schemas.UploadOut}, tags=["uploads"], summary="Finish")
@submitter_required
def finish_upload(request: Any, upload_id: UUID, body: schemas.Finish) -> Status[dict[str, Any]]:
    """Has hashes and files checked, those of one upload of the organisation at a time. GET the upload until its `state`
    is not `checking` any more.

    A recording that no workload names within a day is deleted.
    """
    upload = _upload(request, upload_id)
    uploads.begin_check(upload, {file.path: file.sha256 for file in body.files})
    upload.refresh_from_db()
    return Status(202, schemas.upload_out(upload))


@router.get("/recordings", response=Page[schemas.RecordingOut], tags=["uploads"], summary="Recordings of traffic")
def list_recordings(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """What `traffic.recording` of a workload may name, newest first."""
    return page(Recording.objects.for_user(request.user), query, schemas.recording_out)


@router.delete("/uploads/{upload_id}", response={204: None}, tags=["uploads"], summary="Give an upload up")
@submitter_required
def delete_upload(request: Any, upload_id: UUID) -> Status[None]:
    """Removes the upload and the bytes that have come."""
    receiving.discard(_upload(request, upload_id))
    return Status(204, None)


@router.get("/workloads", response=Page[schemas.WorkloadOut], tags=["workloads"], summary="The workloads")
def list_workloads(
    request: Any, query: Query[PageQuery], project: str = Query("", max_length=LONGEST_PROJECT)
) -> dict[str, Any]:
    """The organisation's workloads, newest first, perhaps those of one project."""
    rows = Workload.objects.for_user(request.user).select_related("model").defer("model__manifest").with_newest_runs()
    if project:
        rows = rows.filter(project=project)
    return page(rows, query, schemas.workload_out)


@router.post("/workloads", response={201: schemas.WorkloadOut}, tags=["workloads"], summary="Hand in a workload")
@submitter_required
def submit_workload(request: Any, document: WorkloadDocument) -> Status[dict[str, Any]]:
    """The body is the workload document itself. It starts nothing yet: POST /runs does."""
    workload = create_workload(request.organisation, request.user, document)
    return Status(201, schemas.workload_out(workload))


@router.get("/workloads/{workload_id}", response=schemas.WorkloadOut, tags=["workloads"], summary="One workload")
def read_workload(request: Any, workload_id: UUID) -> dict[str, Any]:
    """The document and its runs."""
    return schemas.workload_out(_workload(request, workload_id))


@router.patch("/workloads/{workload_id}", response=schemas.WorkloadOut, tags=["workloads"], summary="Set the project")
@submitter_required
def label_workload(request: Any, workload_id: UUID, labels: schemas.WorkloadLabels) -> dict[str, Any]:
    """Puts the workload into a project, or out of its project."""
    workload = _workload(request, workload_id)
    workload.project = labels.project
    workload.save(update_fields=["project"])
    return schemas.workload_out(workload)


def _workload(request: Any, workload_id: UUID) -> Workload:
    return get_object_or_404(Workload.objects.for_user(request.user), pk=workload_id)


def _upload(request: Any, upload_id: UUID) -> Upload:
    return get_object_or_404(Upload.objects.for_user(request.user), pk=upload_id)


def _offset(request: Any) -> int:
    given = request.headers.get("Upload-Offset", "")
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise invalid([{"field": "Upload-Offset", "reason": "the header must be the number of the body's first byte"}])
    return int(given)


def _length(request: Any) -> int:
    length = int(request.headers.get("Content-Length") or 0)
    if length > settings.UPLOAD_CHUNK_BYTES:
        reason = f"a chunk has at most {settings.UPLOAD_CHUNK_BYTES:,} bytes, not {length:,}"
        raise Problem(413, f"Content-Length: {reason}", [{"field": "Content-Length", "reason": reason}])
    return length
