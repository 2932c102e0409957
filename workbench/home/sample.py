"""The sample workload that comes with the product, submitted by one click."""

import hashlib
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from kernels.model_files.digests import content_digest
from workbench.intake import sla
from workbench.intake.models import Model
from workbench.intake.services import uploads
from workbench.intake.services.receiving import append
from workbench.intake.services.workloads import create_workload
from workbench.runs.models import Run
from workbench.runs.services import create_run
from workers.documents.workload import Workload as WorkloadDocument

FOLDER = Path(settings.BASE_DIR) / "samples" / "voice-agent"
SLA = FOLDER / "sla.yaml"


def submit(organisation: Any, user: Any) -> Run:
    """Uploads the sample model, unless the organisation has it, and starts its workload.

    Raises Problem and RunError as an upload, a workload and a run do.
    """
    model = _upload(organisation, user)
    document = WorkloadDocument.model_validate(sla.parse(SLA.read_text("utf-8")) | {"model": model.content_digest})
    with transaction.atomic():
        return create_run(create_workload(organisation, user, document), user)


def _upload(organisation: Any, user: Any) -> Model:
    files = {path.name: path for path in sorted(FOLDER.iterdir()) if path.is_file()}
    hashes = {name: _sha256(path) for name, path in files.items()}
    known = Model.objects.filter(organisation=organisation, content_digest=content_digest(list(hashes.items())))
    if model := known.first():
        return model
    announced = [uploads.Announced(name, path.stat().st_size) for name, path in files.items()]
    upload = uploads.create(organisation, user, FOLDER.name, announced)
    for number, path in enumerate(files.values()):
        with path.open("rb") as stream:
            append(upload, number, 0, stream, path.stat().st_size)
    return uploads.finish(upload, user, hashes)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
