"""Keeping, reading and deleting bring-up documents."""

from typing import Any

import pydantic
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from kernels.bring_up.document import BringUp
from kernels.model_files import ModelRefused
from kernels.model_files.strict_json import parse_json
from workbench.api import quota
from workbench.api.sentences import Problem, invalid, sentences
from workbench.audit.models import Action
from workbench.audit.services import record
from workbench.bring_ups.models import BringUpRow
from workers.documents.prices import PriceBook

MAX_BYTES = 768 * 1024
"""A bring-up of an hour on an H200 has far less."""
WHAT = "`python -m kernels bring-up` writes bring-up.json"


def read(file: UploadedFile) -> BringUp:
    """The document in the file. Raises Problem with one sentence when it is none."""
    check_size(file.size or 0)
    raw = file.read()
    try:
        parsed = parse_json("", raw)
    except ModelRefused as error:
        reason = ": ".join(filter(None, [error.field, error.reason]))
        raise Problem(422, f"The file is no JSON document ({reason}); {WHAT}.") from None
    if rb"\u0000" in raw:
        raise Problem(422, "The file has the character NUL in a text.")
    try:
        return BringUp.model_validate(parsed)
    except pydantic.ValidationError as error:
        raise Problem(422, f"The file is no bring-up: {invalid(sentences(error)).detail}; {WHAT}.") from None


def check_size(size: int) -> None:
    """Refuses a document of too many bytes. Raises Problem 413."""
    if size > MAX_BYTES:
        raise Problem(413, f"The document has {size:,} bytes; a bring-up may have {MAX_BYTES:,}.")


def add(organisation: Any, user: Any, bring_up: BringUp) -> BringUpRow:
    """Keeps the document. Raises Problem 409, 413 or 507 when the organisation may keep no more."""
    rows = BringUpRow.objects.filter(organisation=organisation)
    quota.check_bytes(organisation)
    quota.check_count(rows, settings.ORGANISATION_BRING_UPS, "bring-ups", "delete one that is not needed any more")
    with transaction.atomic():
        row = BringUpRow.objects.create(
            organisation=organisation,
            device=bring_up.environment.device,
            gpu_class=bring_up.entry.gpu_class,
            measured_at=bring_up.environment.at,
            quick=bring_up.quick,
            passed=sum(proof.passed for proof in bring_up.proofs),
            failed=sum(proof.failed for proof in bring_up.proofs),
            content=bring_up.model_dump(mode="json"),
            created_by=user,
        )
        record(Action.BRING_UP_ADDED, organisation, row, actor=user, gpu_class=row.gpu_class)
    return row


def delete(row: BringUpRow, user: Any) -> None:
    """Deletes the document."""
    with transaction.atomic():
        record(Action.BRING_UP_DELETED, row.organisation, row, actor=user, gpu_class=row.gpu_class)
        row.delete()


def lacks_price(bring_up: BringUp, book: PriceBook) -> bool:
    """Whether the book has no price for an hour of this GPU; a CPU needs none."""
    return bring_up.entry.gpu_class not in ("cpu", *(price.gpu_class for price in book.prices))
