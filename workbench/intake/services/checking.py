"""What came by uploads is checked: in the process of a Celery worker, one upload of an organisation at a time.

This process only counts and hashes bytes. What is in the files is read by a process of its own (`check_files.py`).
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from kernels.model_files import ModelFacts, ModelRefused
from kernels.model_files.errors import refuse
from kernels.model_files.sentence_transformers import MODULES
from workbench.api.in_flight import try_lock
from workbench.api.problems import DETAILS, problem_document
from workbench.api.sentences import Problem
from workbench.intake import check_files
from workbench.intake.models import Upload, UploadFile
from workbench.intake.services import recordings, uploads
from workbench.intake.services.receiving import CONFIG, file_of, folder_of, refused
from workbench.storage import disk
from workers.documents.recording import RecordingFacts

log = logging.getLogger(__name__)

PYTHON_PATHS = ("PYTHONPATH", "PYTHONPYCACHEPREFIX")
"""All that the program is told of the worker's environment: where packages lie that are not beside Python."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy's threads, one for each processor, would take the memory that the program may have."""
SECONDS = 600
"""How long a check may take on a busy machine; its processor time is limited to check_files.CPU_SECONDS."""
TOO_LONG = f"checking them takes more than {check_files.CPU_SECONDS} seconds of processor time"
BUSY = "files: the machine is too busy to check them; finish the upload again"


def check_waiting() -> None:
    """Check uploads until none waits that no other process has begun. Organisations take turns."""
    while waiting := dict.fromkeys(Upload.objects.waiting().values_list("organisation_id", flat=True)):
        if not sum(_check_next(organisation) for organisation in waiting):
            return


def _check_next(organisation: Any) -> bool:
    """Check the organisation's next upload; False where another process is checking one of it."""
    with try_lock(f"check {organisation}") as free:
        if not free:
            return False
        upload = Upload.objects.waiting().filter(organisation=organisation).first()
        if upload is not None:
            _check(upload)
    return True


def _check(upload: Upload) -> None:
    try:
        result = _all_files(upload) if upload.state == Upload.State.CHECKING else _config(upload)
    except ModelRefused as error:
        _end(upload, Upload.State.REFUSED, problem=_document(refused(error)))
    except Problem as error:
        _end(upload, Upload.State.RECEIVING, problem=_document(error))
    except DatabaseError:
        raise  # the sweep has it checked again
    except Exception as error:
        if not Upload.objects.filter(pk=upload.pk).exists():  # it was given up meanwhile
            shutil.rmtree(folder_of(upload), ignore_errors=True)
            return
        log.exception("upload %s could not be checked", upload.pk)
        status = 507 if disk.is_full(error) else 500
        _end(upload, Upload.State.RECEIVING, problem=_document(Problem(status, DETAILS[status])))
    else:
        _end(upload, Upload.State.FINISHED if result else Upload.State.RECEIVING, **result)


def _config(upload: Upload) -> dict[str, Any]:
    """Check a model's config.json before the rest has come; what modules.json replaces of it waits for that. Raises
    ModelRefused.
    """
    file = upload.files.filter(path=CONFIG).first()
    if file is not None and not upload.files.filter(path=MODULES).exists():
        _facts("config", {file.path: file_of(upload, file.number)})
    return {}


def _all_files(upload: Upload) -> dict[str, Any]:
    """Check a complete upload, and keep what it holds. Raises ModelRefused and Problem."""
    files = list(upload.files.all())
    where: dict[str, Path] = {}
    for file in files:
        where[file.path] = file_of(upload, file.number)
        where[file.path].parent.mkdir(parents=True, exist_ok=True)
        where[file.path].touch()
        uploads.check_hash(file, where[file.path])
    facts = _facts(upload.holds, where)
    upload.refresh_from_db()  # nothing is kept of one that was given up meanwhile
    if upload.holds == Upload.Holds.RECORDING:
        return {"recording": recordings.keep(upload, files[0], RecordingFacts(**facts))}
    return {"model": uploads.keep_model(upload, files, ModelFacts(**facts))}


def _facts(check: str, files: dict[str, Path]) -> dict[str, Any]:
    """What `check_files` found. Raises ModelRefused, also where it takes more than it may, and Problem 503."""
    request: dict[str, Any] = {"check": check, "files": {path: str(at) for path, at in files.items()}}
    request |= {"most_bytes": settings.MODEL_MAX_BYTES, "data": str(settings.WORKBENCH_DATA)}
    answer = json.loads(_run_check(json.dumps(request)))
    if answer["missing"]:
        log.warning("a customer's files were read without full confinement: %s", " ".join(answer["missing"]))
    if "refused" in answer:
        refuse([ModelRefused(**reason) for reason in answer["refused"]])
    return dict(answer["facts"])


def _run_check(request: str) -> bytes:
    """What the program prints. Raises ModelRefused where it takes more than it may, and Problem 503."""
    command = [sys.executable, "-m", check_files.__name__, str(os.getpid())]
    try:
        done = subprocess.run(
            command,
            input=request.encode(),
            capture_output=True,
            cwd=settings.BASE_DIR,
            env={name: os.environ[name] for name in PYTHON_PATHS if name in os.environ} | ONE_THREAD,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Problem(503, BUSY) from None
    if done.returncode == -signal.SIGKILL:
        raise Problem(503, BUSY)
    if done.returncode == -signal.SIGXCPU:
        raise ModelRefused("", "files", TOO_LONG)
    if done.returncode:
        raise RuntimeError(f"check_files ended with {done.returncode}: {done.stderr[-2000:].decode(errors='replace')}")
    return done.stdout


def _end(upload: Upload, state: str, **fields: Any) -> None:
    """Write down what came of the check, unless the upload was finished or given up meanwhile. The files of one that
    has ended are removed.
    """
    ended = state in (Upload.State.FINISHED, Upload.State.REFUSED)
    with transaction.atomic():
        there = Upload.objects.filter(pk=upload.pk, state=upload.state)
        if not there.update(state=state, config_waits=False, touched_at=timezone.now(), **fields):
            return
        if ended:
            UploadFile.objects.filter(upload=upload.pk).delete()
    if ended:
        shutil.rmtree(folder_of(upload), ignore_errors=True)


def _document(problem: Problem) -> dict[str, Any]:
    return problem_document(problem.status, problem.detail, problem.errors).model_dump(mode="json")
