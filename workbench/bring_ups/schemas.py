"""The API's schemas of bring-ups."""

import uuid
from datetime import datetime

from ninja import Schema

from kernels.bring_up.document import BringUp


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
