"""Bring-ups in the public API."""

import uuid
from datetime import datetime
from typing import Any

from django.shortcuts import get_object_or_404
from ninja import Query, Router, Schema, Status

from kernels.bring_up.document import BringUp
from workbench.accounts.permissions import submitter_required
from workbench.api.pagination import Page, PageQuery, page
from workbench.bring_ups import services
from workbench.bring_ups.models import BringUpRow


class BringUpSummary(Schema):
    """A bring-up in a list: how many proofs passed and failed on which GPU."""

    id: uuid.UUID
    device: str
    gpu_class: str
    measured_at: datetime
    quick: bool
    passed: int
    failed: int
    created_at: datetime


class BringUpDetail(BringUpSummary):
    """A bring-up with all that it found."""

    document: BringUp


router = Router(tags=["hardware"])


def _row(request: Any, bring_up_id: uuid.UUID) -> BringUpRow:
    rows = BringUpRow.objects.for_user(request.user).select_related("organisation")
    return get_object_or_404(rows, id=bring_up_id)


@router.get("/bring-ups", response=Page[BringUpSummary], summary="List bring-ups, newest first")
def list_bring_ups(request: Any, query: Query[PageQuery]) -> dict[str, Any]:
    """What works on which GPU, as the organisation's engineers measured it."""
    return page(BringUpRow.objects.for_user(request.user).defer("content"), query)


@router.post("/bring-ups", response={201: BringUpSummary}, summary="Add a bring-up")
@submitter_required
def add_bring_up(request: Any, body: BringUp) -> Any:
    """The body is bring-up.json, as `python -m kernels bring-up` writes it; 768 KiB at most."""
    services.check_size(len(request.body))
    return Status(201, services.add(request.organisation, request.user, body))


@router.get("/bring-ups/{uuid:bring_up_id}", response=BringUpDetail, summary="Read a bring-up")
def read_bring_up(request: Any, bring_up_id: uuid.UUID) -> BringUpRow:
    """With the document as it was handed in."""
    return _row(request, bring_up_id)


@router.delete("/bring-ups/{uuid:bring_up_id}", response={204: None}, summary="Delete a bring-up")
@submitter_required
def delete_bring_up(request: Any, bring_up_id: uuid.UUID) -> Any:
    """Nothing else depends on it."""
    services.delete(_row(request, bring_up_id), request.user)
    return Status(204, None)
