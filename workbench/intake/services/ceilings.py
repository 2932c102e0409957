"""The rates of GPUs that an organisation's runs have measured, which predictions start from."""

from collections.abc import Iterable
from typing import Any

import pydantic
from django.apps import apps

from workers.documents.gpu_class import SEVERAL, single_gpu_class
from workers.documents.measurement import Ceilings


def known_ceilings(organisation: Any, gpu_classes: Iterable[str], gpu_uuid: str = "") -> dict[str, Ceilings]:
    """The ceilings that the newest profile on each GPU of the classes measured, by the class of one GPU; without those
    that no profile measured, and those that cannot be read. Those of the very GPU `gpu_uuid` come before newer ones.
    """
    ceilings = {}
    for gpu in dict.fromkeys(map(single_gpu_class, gpu_classes)):
        try:
            measured = stage_fields(organisation, gpu, "profile", "result__ceilings")
            own = measured.filter(result__ceilings__gpu_uuid=gpu_uuid).first() if gpu_uuid else None
            if newest := own or measured.first():
                ceilings[gpu] = Ceilings.model_validate(newest)
        except pydantic.ValidationError:
            continue
    return ceilings


def stage_fields(organisation: Any, gpu: str, stage: str, field: str) -> Any:
    """One field of the results of a stage that is done, on one or several of a GPU, the newest first."""
    classes = [gpu, *(name for name, (single, _) in SEVERAL.items() if single == gpu)]
    stages = apps.get_model("runs", "StageRun")
    done = stages.objects.filter(stage=stage, state=stages.State.DONE)
    rows = done.filter(run__organisation=organisation, run__gpu_class__in=classes)
    return rows.order_by("-finished_at", "-id").values_list(field, flat=True)
