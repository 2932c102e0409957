"""Recorded traffic: an upload of one file becomes a recording, which a workload names by its SHA-256.

It goes with the last workload that names it. One that no workload names goes a day after it was handed in.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from kernels.model_files import longest_sequence
from workbench.accounts.models import Organisation
from workbench.api.quota import check_count, too_large
from workbench.api.sentences import invalid
from workbench.intake import blobs
from workbench.intake.models import Recording, Upload, UploadFile, Workload
from workbench.intake.services import quota, uploads
from workbench.intake.services.receiving import file_of
from workers.documents.model import ModelManifest
from workers.documents.recording import Recording as RecordingDocument
from workers.documents.recording import RecordingFacts, longest
from workers.documents.workload import BETWEEN_TOKENS
from workers.documents.workload import Workload as WorkloadDocument
from workers.loadtest.recording import MAX_BYTES, NO_ARRIVALS

UNUSED_FOR = timedelta(days=1)
MIN_SECONDS = 3
"""A replay at the highest speed takes at least so long, as the shortest load of a run does."""
LONGEST_NAME = 200
FIELD = "traffic.recording"


def announce(organisation: Any, user: Any, file: uploads.AnnouncedFile) -> Upload:
    """Announces the upload of a recording. Raises Problem when its name, its size or the quota does not allow it."""
    if "/" in file.path or not file.path.isprintable() or not 0 < len(file.path) <= LONGEST_NAME:
        reason = f"is no file name: it has at most {LONGEST_NAME} characters, no slash and no control characters"
        raise invalid([{"field": "files[0].path", "reason": reason}])
    if file.size > MAX_BYTES:
        raise too_large(f"{file.size:,} bytes are over the {MAX_BYTES:,} that a recording may have")
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        _check_count(organisation)
        quota.check_upload(organisation, file.size)
        stated = {"name": file.path[:120], "holds": Upload.Holds.RECORDING}
        upload = Upload.objects.create(organisation=organisation, created_by=user, **stated)
        UploadFile.objects.create(upload=upload, number=0, path=file.path, size=file.size, sha256=file.sha256)
    return upload


def keep(upload: Upload, file: UploadFile, facts: RecordingFacts) -> Recording:
    """The recording of an upload whose lines were checked, or the organisation's own of the same content.

    Raises Problem 409 for one recording too many.
    """
    blobs.adopt(file_of(upload, file.number), file.digest)
    stated = {"name": file.path, "size": file.size, "facts": facts.model_dump(), "created_by": upload.created_by}
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=upload.organisation_id)
        rows = Recording.objects.filter(organisation=upload.organisation_id, sha256=file.digest)
        if not rows.update(touched_at=timezone.now()):
            _check_count(upload.organisation)
            Recording.objects.create(organisation=upload.organisation, sha256=file.digest, **stated)
    return rows.get()


def _check_count(organisation: Any) -> None:
    rows = Recording.objects.filter(organisation=organisation)
    check_count(rows, settings.ORGANISATION_WORKLOADS, "recordings", "delete workloads that use them")


def named_recording(rows: QuerySet[Recording], document: WorkloadDocument) -> Recording | None:
    """The recording that a workload names, among `rows`; None where it names none or there is none."""
    sha256 = document.traffic.recording
    return rows.filter(sha256=sha256).first() if sha256 else None


def reasons(
    facts_of_model: ModelManifest, document: WorkloadDocument, recording: RecordingDocument | None
) -> Iterator[dict[str, str]]:
    """Why the recording cannot be replayed to this model, each with its field."""
    traffic = document.traffic
    if not traffic.recording:
        return
    if recording is None:
        reason = "no recording of your organisation has this SHA-256; hand the file in, once more if it was long ago"
        yield {"field": FIELD, "reason": reason}
        return
    if traffic.speed is not None and recording.seconds / traffic.speed < MIN_SECONDS:
        yield {"field": "traffic.arrivals.speed", "reason": _too_short(recording, traffic.speed)}
    prompt, output = longest(traffic, recording)
    positions = longest_sequence(facts_of_model.config)
    if positions is not None and prompt + output > positions.tokens:
        reason = (
            f"the longest prompt has {prompt:,} and the longest answer {output:,} tokens, together more than the "
            f"{positions.tokens:,} positions that {facts_of_model.name} has{positions.why}; batches are as long as both"
        )
        yield {"field": FIELD, "reason": reason}
    for index, objective in enumerate(document.objectives):
        if objective.n is not None and objective.n > output:
            reason = f"token {objective.n:,} is promised, but the longest answer has {output:,}"
            yield {"field": f"objectives[{index}].n", "reason": reason}
        if objective.metric in BETWEEN_TOKENS and output < 2:
            reason = f"{objective.label} is a time between tokens, but every answer has one token"
            yield {"field": f"objectives[{index}].metric", "reason": reason}


def _too_short(recording: RecordingDocument, speed: float) -> str:
    if not recording.seconds:
        return f"{recording.name} {NO_ARRIVALS}"
    duration = f"{recording.seconds / speed:.3g} s"
    return (
        f"{recording.name} lasts {recording.seconds:.3g} s, which {speed:g} times as fast is {duration}; "
        f"a load takes {MIN_SECONDS} s at least"
    )


def release(rows: QuerySet[Recording]) -> dict[str, datetime]:
    """Deletes those of the rows that no workload names. Returns their contents, each with when it was there."""
    unused = {recording.pk: recording for recording in rows.select_for_update() if not recording.workloads.exists()}
    Recording.objects.filter(pk__in=unused).delete()
    return {recording.sha256: recording.touched_at for recording in unused.values()}


def sweep() -> int:
    """Deletes recordings that no workload has named for a day; returns how many. Their blobs are collected later."""
    old = Recording.objects.filter(touched_at__lt=timezone.now() - UNUSED_FOR)
    with transaction.atomic():
        return len(release(old.exclude(pk__in=Workload.objects.exclude(recording=None).values("recording"))))
