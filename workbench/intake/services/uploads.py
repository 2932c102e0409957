"""An upload from its announcement to a model."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from django.db import transaction
from django.utils import timezone

from kernels.model_files import ModelFacts, ModelRefused, Selection, check_config_size, check_paths, select_files
from workbench.accounts.models import Organisation
from workbench.api.sentences import Problem, invalid
from workbench.intake import blobs
from workbench.intake.models import Model, Upload, UploadFile
from workbench.intake.services import queue, quota
from workbench.intake.services.catalogue import manifest_of, save_model
from workbench.intake.services.receiving import CONFIG, check_receiving, discard, file_of, gone, refused, running
from workers.documents.model import ModelFile


class AnnouncedFile(NamedTuple):
    """A file of a new upload. `sha256` may be sent at the end instead."""

    path: str
    size: int
    sha256: str = ""


def create(organisation: Any, user: Any, name: str, files: Sequence[AnnouncedFile]) -> Upload:
    """Announces an upload of those files that are read. Raises Problem when a path, a size or the quota does not allow
    it.
    """
    paths = _without_common_folder([file.path for file in files])
    selection = select(paths)
    selected = set(selection.files)
    rows = {number: file for number, file in enumerate(files) if paths[number] in selected}
    try:
        if CONFIG in paths:
            check_config_size(files[paths.index(CONFIG)].size)
    except ModelRefused as error:
        raise refused(error) from None
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        quota.check(organisation, [file.size for file in rows.values()])
        upload = Upload.objects.create(organisation=organisation, name=name, created_by=user)
        UploadFile.objects.bulk_create(
            UploadFile(upload=upload, number=number, path=paths[number], size=file.size, sha256=file.sha256)
            for number, file in rows.items()
        )
    upload.left_out = selection.left_out
    return upload


def select(paths: Sequence[str], shards: Sequence[str] | None = None) -> Selection:
    """Which files of a folder are read; `shards` are those that its index names. Raises Problem 422."""
    try:
        selection = select_files(paths, shards)
        check_paths(selection.files)
    except ModelRefused as error:
        raise refused(error) from None
    return selection


def _without_common_folder(paths: list[str]) -> list[str]:
    """The paths as they are inside the model's folder, when all of them begin with that folder's name."""
    folder = f"{paths[0].partition('/')[0]}/"
    return [path.removeprefix(folder) for path in paths] if all(path.startswith(folder) for path in paths) else paths


def begin_check(upload: Upload, hashes: Mapping[str, str]) -> None:
    """Has a complete upload checked. `hashes` maps paths to the SHA-256 that the customer states.

    Raises Problem: 409 while bytes are missing, or one model too many; 422 where a hash is missing, and that of an
    upload that was refused. Does nothing when the check has begun.
    """
    if upload.state in (Upload.State.CHECKING, Upload.State.FINISHED):
        return
    check_receiving(upload)
    files = list(upload.files.all())
    if not files:  # it was refused since the row was read
        raise gone(upload)
    _check_complete(files, hashes)
    if upload.holds == Upload.Holds.MODEL:
        quota.check_models(upload.organisation)
    for file in files:
        file.sha256 = file.sha256 or hashes[file.path]
    with transaction.atomic():
        UploadFile.objects.bulk_update(files, ["sha256"])
        receiving = Upload.objects.filter(pk=upload.pk, state=Upload.State.RECEIVING)
        receiving.update(state=Upload.State.CHECKING, problem=None, touched_at=timezone.now())
    queue.check_soon()


def _check_complete(files: list[UploadFile], hashes: Mapping[str, str]) -> None:
    """Raises Problem 409 while bytes are missing, and 422 where a hash is, is another one than was stated before, or
    is one of a file that is not there.
    """
    for file in files:
        if file.received != file.size:
            reason = f"{file.received:,} of {file.size:,} bytes have come"
            raise Problem(409, f"{file.path}: {reason}", [{"file": file.path, "field": "size", "reason": reason}])
    hash_of = {file.path: file.sha256 for file in files}
    for path, stated in hashes.items():
        if path not in hash_of:
            raise invalid([{"file": path, "field": "path", "reason": "the upload has no such file"}])
        if hash_of[path] not in ("", stated):
            reason = f"was stated as {hash_of[path]} before, not {stated}"
            raise invalid([{"file": path, "field": "sha256", "reason": reason}])
    for file in files:
        if not (file.sha256 or hashes.get(file.path)):
            raise invalid([{"file": file.path, "field": "sha256", "reason": "is required"}])


def check_hash(file: UploadFile, where: Path) -> None:
    """Fills in the file's digest, and keeps it. Raises ModelRefused where another one was stated."""
    if not file.digest:
        with where.open("rb", buffering=0) as content:
            file.digest = running.follow(file, content)
        UploadFile.objects.filter(pk=file.pk).update(digest=file.digest)
    if file.sha256 != file.digest:
        raise ModelRefused(file.path, "sha256", f"the content that came has {file.digest}, not {file.sha256}")


def keep_model(upload: Upload, files: list[UploadFile], facts: ModelFacts) -> Model:
    """The model of an upload whose files were checked. Raises Problem 409 for one model too many."""
    quota.check_models(upload.organisation)
    files = [file for file in files if file.path in facts.files]
    listed = [ModelFile(path=file.path, sha256=file.digest, size=file.size) for file in files]
    manifest = manifest_of(facts, upload.name, "upload", listed)
    for file in files:
        blobs.adopt(file_of(upload, file.number), file.digest)
    return save_model(upload.organisation, upload.created_by, manifest)


ABANDONED_AFTER = timedelta(days=1)


def sweep_uploads() -> int:
    """Removes uploads that nobody has touched, or that ended, a day ago, with their bytes; returns how many."""
    rows = Upload.objects.exclude(state=Upload.State.CHECKING)  # those wait for us, however long we were away
    old = list(rows.filter(touched_at__lt=timezone.now() - ABANDONED_AFTER))
    for upload in old:
        discard(upload)
    upload_ids = {str(key) for key in Upload.objects.values_list("pk", flat=True)}
    blobs.sweep_incoming(upload_ids, ABANDONED_AFTER.total_seconds())
    return len(old)
