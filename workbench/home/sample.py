"""The sample workload that comes with the product, submitted by one click."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from kernels.model_files import inspect
from kernels.model_files.digests import content_digest, hash_of
from workbench.intake import blobs, sla
from workbench.intake.models import Model
from workbench.intake.services import quota
from workbench.intake.services.catalogue import manifest_of, save_model
from workbench.intake.services.workloads import create_workload
from workbench.runs.models import Run
from workbench.runs.services import create_run
from workers.documents.model import ModelFile
from workers.documents.workload import Workload as WorkloadDocument

FOLDER = Path(settings.BASE_DIR) / "samples" / "voice-agent"
SLA = FOLDER / "sla.yaml"


def submit(organisation: Any, user: Any) -> Run:
    """Takes the sample model in, unless the organisation has it, and starts its workload.

    Raises Problem and RunError as an upload, a workload and a run do.
    """
    model = _model(organisation, user)
    document = WorkloadDocument.model_validate(sla.parse(SLA.read_text("utf-8")) | {"model": model.content_digest})
    with transaction.atomic():
        return create_run(create_workload(organisation, user, document), user)


def _model(organisation: Any, user: Any) -> Model:
    """The sample's model in the organisation. Its files are ours, so nothing about them needs to be checked."""
    files = {path.name: path for path in sorted(FOLDER.iterdir()) if path.is_file()}
    listed = [ModelFile(path=name, sha256=hash_of(at), size=at.stat().st_size) for name, at in files.items()]
    digest = content_digest([(file.path, file.sha256) for file in listed])
    if model := Model.objects.filter(organisation=organisation, content_digest=digest).first():
        return model
    quota.check(organisation, [file.size for file in listed])
    for at in files.values():
        blobs.store([at.read_bytes()])
    return save_model(organisation, user, manifest_of(inspect(files), FOLDER.name, "upload", listed))
