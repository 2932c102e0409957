"""The worker API, which GPU workers call. It takes one shared token; every call about a stage names its attempt.

That token only lets a worker claim. The answer to a claim carries a token of its own, and every later call about the
attempt must send that. 409 means that the attempt is not, or no longer, the worker's: it drops the message and what it
has.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pydantic
from django.db import transaction
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from ninja import Query, Router, Status

from workbench.accounts.secrets import keyed_digest
from workbench.api.sentences import Problem, sentence, sentences
from workbench.intake import blobs
from workbench.intake.models import StoredFile, Unreadable, Workload
from workbench.intake.services import endpoints
from workbench.runs import run_queue, services, state
from workbench.runs.models import Run
from workbench.runs.workers import greet
from workers.documents.stages import STAGES, Results, StageFailure, StageInput
from workers.documents.worker_api import (
    CLAIM_HEADER,
    ENDPOINT_STAGES,
    Claim,
    EndpointAccess,
    Heartbeat,
    HeartbeatAnswer,
    Hello,
    Outcome,
    ProgressReport,
    Receipt,
    StageKey,
)
from workers.shared import logs

router = Router()

CHUNK = 2**20
MAX_ARTIFACT_BYTES = 2**32


@router.post("/hello", response={204: None})
def hello(request: HttpRequest, body: Hello) -> Any:
    """A worker reports that it is alive."""
    greet(body)
    return Status(204, None)


@router.post("/claim", response=StageInput)
def claim(request: HttpRequest, body: Claim, response: HttpResponse) -> StageInput:
    """Take the stage that is next in the worker's class. The header `Claim-Token` belongs into every later call.

    Only one claim of an attempt succeeds. The answer names the run, which need not be the one that was asked for. A
    claim that is sent again, with its `claim_id`, is answered again.
    """
    run = run_queue.claim(body, body.worker, body.gpu_class, body.claim_id)
    if run is None:
        raise _not_yours(body)
    return _grant(run, response)


def _grant(run: Run, response: HttpResponse) -> StageInput:
    """The answer to a claim that has got the run."""
    key = run_queue.key_of(run)
    logs.bind(**key.model_dump())
    response[CLAIM_HEADER] = _claim_token(run)
    try:
        return services.stage_input(run, key)
    except Unreadable as error:
        state.fail(key, StageFailure(sentence=str(error), refused=True))
        raise Problem(409, str(error)) from error


@router.post("/heartbeat", response=HeartbeatAnswer)
def heartbeat(request: HttpRequest, body: Heartbeat) -> HeartbeatAnswer:
    """The stage is still being worked on."""
    _check_claim(request, body)
    return _answer(body, state.extend_lease(body))


@router.post("/progress", response=HeartbeatAnswer)
def progress(request: HttpRequest, body: ProgressReport) -> HeartbeatAnswer:
    """Progress of the stage."""
    _check_claim(request, body)
    return _answer(body, state.progress(body, body.lines))


@router.post("/endpoint", response=EndpointAccess)
def endpoint(request: HttpRequest, body: StageKey, response: HttpResponse) -> EndpointAccess:
    """The key of the run's endpoint, for the worker that holds a stage beside which it is measured."""
    run = _check_claim(request, body)
    response["Cache-Control"] = "no-store"
    if body.stage not in ENDPOINT_STAGES:
        stages = ", ".join(ENDPOINT_STAGES)
        return EndpointAccess(refused=f"The endpoint is measured beside {stages}, not {body.stage}.")
    return endpoints.access(run.workload)


@router.post("/result", response={200: StageInput, 204: None})
def result(request: HttpRequest, body: Outcome, response: HttpResponse) -> Any:
    """How the attempt ended. Where the run's next stage is claimed with it and granted, the answer is that of a claim.

    No message about that stage is sent, so no other worker is woken for it.
    """
    run, following = _check_claim(request, body), None
    with transaction.atomic():
        accepted = _accept(body)
        if accepted and body.next_claim_id:
            following = run_queue.claim_following(run, body.next_claim_id)
    if not accepted:
        raise _not_yours(body)
    return Status(204, None) if following is None else Status(200, _grant(following, response))


def _accept(body: Outcome) -> bool:
    """Move the run on. Raises Problem 422."""
    if body.result is not None:
        return state.advance(body, _check_outcome(body), body.artifacts)
    if body.failure is not None:
        return state.fail(body, body.failure)
    if body.cancelled:
        return state.stop(body)
    if body.handed_back:
        return state.hand_back(body)
    if body.died:
        return state.retry(body, body.died)
    raise Problem(422, "result: an outcome has a result, a failure, a death, a cancel or a hand-back")


@router.get("/runs/{uuid:run_id}/{stage}/{int:attempt}/files/{path:path}")
def model_file(request: HttpRequest, run_id: UUID, stage: str, attempt: int, path: str) -> FileResponse:
    """One file of the model that the held run is about."""
    workload = _workload(request, run_id, stage, attempt)
    return blobs.response(StoredFile.objects.filter(model=workload.model_id, path=path).first())


@router.get("/runs/{uuid:run_id}/{stage}/{int:attempt}/recording")
def recording(request: HttpRequest, run_id: UUID, stage: str, attempt: int) -> FileResponse:
    """The recording of traffic that the workload of the held run names."""
    return blobs.response(_workload(request, run_id, stage, attempt).recording)


def _workload(request: HttpRequest, run_id: UUID, stage: str, attempt: int) -> Workload:
    """The workload of the run that the caller holds. Raises Http404 for an attempt that cannot be, and Problem 409."""
    if stage not in STAGES or attempt < 1:
        raise Http404
    return _check_claim(request, StageKey(run_id=str(run_id), stage=stage, attempt=attempt)).workload


@router.put("/artifacts/{sha256}", response=Receipt)
def artifact(request: HttpRequest, sha256: str, key: Query[StageKey]) -> Receipt:
    """Store a file that the stage kept, streamed; its content must have the hash it is sent under."""
    _check_claim(request, key)
    if state.extend_lease(key) is None:
        raise _not_yours(key)
    try:
        blobs.store(_chunks(request), expect=sha256)
    except ValueError as error:
        raise Problem(422, str(error)) from error
    return Receipt(receipt=_receipt(key, sha256))


def _receipt(key: StageKey, sha256: str) -> str:
    """What shows that this attempt has sent the content, and does not just know the hash of another run's file."""
    return keyed_digest(f"artifact {key.run_id} {key.stage} {key.attempt} {sha256}")


def _claim_token(run: Run) -> str:
    """What shows that a caller made the claim by which the run is held: only the answer to that claim says it."""
    return keyed_digest(f"claim {run.id} {run.stage} {run.attempt} {run.worker} {run.claim_id}")


def _check_claim(request: HttpRequest, key: StageKey) -> Run:
    """The run, when the caller holds this attempt at it. Raises Problem 409."""
    logs.bind(**key.model_dump(include={"run_id", "stage", "attempt"}))
    rows = Run.objects.select_related("workload").filter(id=key.run_id, stage=key.stage, attempt=key.attempt)
    run = rows.filter(state=Run.State.RUNNING).first()
    if run is None or not constant_time_compare(request.headers.get(CLAIM_HEADER, ""), _claim_token(run)):
        raise _not_yours(key)
    return run


def _answer(key: StageKey, cancel: bool | None) -> HeartbeatAnswer:
    if cancel is None:
        raise _not_yours(key)
    return HeartbeatAnswer(cancel=cancel)


def _not_yours(key: StageKey) -> Problem:
    return Problem(409, f"{key.stage}, attempt {key.attempt}, of run {key.run_id} is not yours, or not any more")


def _check_outcome(outcome: Outcome) -> dict[str, Any]:
    """The validated result. Raises Problem 422 when it does not match its document or a file was not uploaded."""
    for artifact in outcome.artifacts:
        blob = blobs.path_of(artifact.sha256)
        sent = constant_time_compare(outcome.receipts.get(artifact.sha256, ""), _receipt(outcome, artifact.sha256))
        if not sent or not blob.exists():
            raise Problem(422, f"artifacts: {artifact.name} has not been uploaded")
        if blob.stat().st_size != artifact.size:
            raise Problem(422, f"artifacts: {artifact.name} has {blob.stat().st_size:,} bytes, not {artifact.size:,}")
    try:
        document = getattr(Results.model_validate({outcome.stage: outcome.result}), outcome.stage)
    except pydantic.ValidationError as error:
        raise Problem(422, sentence(sentences(error)[0])) from error
    return document.model_dump(mode="json")


def _chunks(request: HttpRequest) -> Iterator[bytes]:
    received = 0
    while chunk := request.read(CHUNK):
        received += len(chunk)
        if received > MAX_ARTIFACT_BYTES:
            raise ValueError(f"artifact: larger than {MAX_ARTIFACT_BYTES} bytes")
        yield chunk
