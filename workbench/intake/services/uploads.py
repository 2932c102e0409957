"""An upload from its announcement to a model. A refused upload leaves nothing behind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from kernels.model_files import ModelRefused, check_config_size, check_paths, inspect
from workbench.accounts.models import Organisation
from workbench.api.sentences import Problem, invalid
from workbench.intake import blobs
from workbench.intake.models import Model, Upload, UploadFile
from workbench.intake.services import quota
from workbench.intake.services.catalogue import manifest_of, save_model
from workbench.intake.services.chat_templates import check_templates
from workbench.intake.services.receiving import CONFIG, discard, file_of, refused, running, unchanging
from workers.documents.model import ModelFile


class Announced(NamedTuple):
    """A file of a new upload. `sha256` may be sent at the end instead."""

    path: str
    size: int
    sha256: str = ""


def create(organisation: Any, user: Any, name: str, files: Sequence[Announced]) -> Upload:
    """Announces an upload. Raises Problem when a path, a size or the quota does not allow it."""
    paths = _without_common_folder([file.path for file in files])
    try:
        check_paths(paths)
        if CONFIG not in paths:
            raise ModelRefused(CONFIG, "", "the file is missing")
        check_config_size(files[paths.index(CONFIG)].size)
    except ModelRefused as error:
        raise refused(error) from None
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        quota.check(organisation, [file.size for file in files])
        upload = Upload.objects.create(organisation=organisation, name=name, created_by=user)
        UploadFile.objects.bulk_create(
            UploadFile(upload=upload, number=number, path=path, size=file.size, sha256=file.sha256)
            for number, (path, file) in enumerate(zip(paths, files, strict=True))
        )
    return upload


def _without_common_folder(paths: list[str]) -> list[str]:
    """The paths as they are inside the model's folder, when all of them begin with that folder's name."""
    folder = paths[0].partition("/")[0] if paths else ""
    if f"{folder}/config.json" in paths and all(path.startswith(f"{folder}/") for path in paths):
        return [path.removeprefix(f"{folder}/") for path in paths]
    return paths


def finish(upload: Upload, user: Any, hashes: Mapping[str, str]) -> Model:
    """Turns a complete upload into a model. `hashes` maps paths to the SHA-256 that the customer states.

    Raises Problem: 409 while bytes are missing (the upload stays), 422 when a hash or the model is refused (the
    upload is removed). What is interrupted can be finished again; files that were hashed are not hashed again.
    """
    with unchanging(upload):
        Upload.objects.filter(pk=upload.pk).update(touched_at=timezone.now())
        files = list(upload.files.all())
        check_complete(files, hashes)
        quota.check_models(upload.organisation)
        try:
            model = _to_model(upload, user, files, hashes)
        except ModelRefused as error:
            discard(upload)
            raise refused(error) from None
        discard(upload)
        return model


def check_complete(files: list[UploadFile], hashes: Mapping[str, str]) -> None:
    """Raises Problem 409 while bytes are missing, and 422 where a hash is, or is one of a file that is not there."""
    for file in files:
        if file.received != file.size:
            reason = f"{file.received:,} of {file.size:,} bytes have come"
            raise Problem(409, f"{file.path}: {reason}", [{"file": file.path, "field": "size", "reason": reason}])
    known = {file.path for file in files}
    for path in hashes:
        if path not in known:
            raise invalid([{"file": path, "field": "path", "reason": "the upload has no such file"}])
    for file in files:
        if not (file.sha256 or hashes.get(file.path)):
            raise invalid([{"file": file.path, "field": "sha256", "reason": "is required"}])


def check_hash(file: UploadFile, where: Path, hashes: Mapping[str, str]) -> None:
    """Fills in the file's digest, and keeps it. Raises ModelRefused where another one was stated."""
    if not file.digest:
        with where.open("rb", buffering=0) as content:
            file.digest = running.follow(file, content)
        UploadFile.objects.filter(pk=file.pk).update(digest=file.digest)
    for told in filter(None, (file.sha256, hashes.get(file.path))):
        if told != file.digest:
            raise ModelRefused(file.path, "sha256", f"the content that came has {file.digest}, not {told}")


def _to_model(upload: Upload, user: Any, files: list[UploadFile], hashes: Mapping[str, str]) -> Model:
    where: dict[str, Path] = {}
    for file in files:
        where[file.path] = file_of(upload, file.number)
        where[file.path].parent.mkdir(parents=True, exist_ok=True)
        where[file.path].touch()
        check_hash(file, where[file.path], hashes)
    facts = inspect(where, quota=settings.MODEL_MAX_BYTES)
    check_templates(where)
    listed = [ModelFile(path=file.path, sha256=file.digest, size=file.size) for file in files]
    manifest = manifest_of(facts, upload.name, "upload", listed)
    for file in files:
        blobs.adopt(where[file.path], file.digest)
    return save_model(upload.organisation, user, manifest)
