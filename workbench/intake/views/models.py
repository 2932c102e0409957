"""Pages of models: catalogue and own, one model, the upload."""

from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from kernels.model_files.config import value
from workbench.accounts.permissions import submitter_required
from workbench.intake.models import Model, Upload
from workbench.intake.services import catalogue, quota
from workbench.pages.filters import ordered
from workers.documents.model import ModelManifest

PAGE_SIZE = 25
ORDERS = {"name": "name", "size": "size", "uploaded": "created_at"}
CONFIG_SHOWN = {"is_encoder_decoder"}
"""What the list's words about a model's kind go by."""


@require_safe
def model_list(request: HttpRequest) -> HttpResponse:
    """The organisation's own models, uploads under way, and the catalogue."""
    models = Model.objects.for_user(request.user).filter(manifest__source="upload").select_related("created_by")
    uploads = Upload.objects.for_user(request.user).open().prefetch_related("files")
    page = Paginator(ordered(models, request, ORDERS), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "models": [_shown(model) for model in cast("QuerySet[Model]", page.object_list).iterator(chunk_size=1)],
        "uploads": [(upload, *_progress(upload)) for upload in uploads],
        "catalogue": [{"name": name, "summary": text, "facts": facts} for name, text, facts in catalogue.entries()],
    }
    return render(request, "intake/models.html", context)


def _shown(model: Model) -> tuple[Model, ModelManifest | None, str]:
    """A row of the list, without what is large: the model's configuration."""
    facts, unreadable = model.reading
    model.manifest = {}
    if facts is not None:
        facts.config = {key: facts.config[key] for key in CONFIG_SHOWN & facts.config.keys()}
    return model, facts, unreadable


def _progress(upload: Upload) -> tuple[int, int]:
    files = list(upload.files.all())
    return sum(file.received for file in files), sum(file.size for file in files)


@require_safe
def model_page(request: HttpRequest, model_id: UUID) -> HttpResponse:
    """One model: what its files say, and the workloads about it."""
    model = get_object_or_404(Model.objects.for_user(request.user).select_related("created_by"), pk=model_id)
    facts, unreadable = model.reading
    context = {
        "model": model,
        "facts": facts,
        "unreadable": unreadable,
        "dimensions": _dimensions(facts.config) if facts else [],
        "page": Paginator(model.workloads.all(), PAGE_SIZE).get_page(request.GET.get("page")),
    }
    return render(request, "intake/model.html", context)


DIMENSIONS = {
    "layers": "Layers",
    "hidden_size": "Hidden size",
    "heads": "Attention heads",
    "kv_heads": "Key and value heads",
    "intermediate_size": "Intermediate size",
    "experts": "Experts",
    "chosen": "Experts of a token",
    "expert_size": "Intermediate size of an expert",
    "vocab_size": "Vocabulary",
    "positions": "Context, tokens",
}


def _dimensions(config: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what the configuration states of the model's size and dtype."""
    sizes = [(label, value(config, name)) for name, label in DIMENSIONS.items()]
    dtype = config.get("dtype") or config.get("torch_dtype")
    stated = [(label, f"{size:,}") for label, size in sizes if size is not None]
    return stated + ([("Dtype", dtype)] if isinstance(dtype, str) else [])


@require_safe
@submitter_required
def model_upload(request: HttpRequest) -> HttpResponse:
    """Files by drag and drop or by the file input; the script sends them by the API."""
    context = {
        "most": settings.MODEL_MAX_BYTES,
        "used": quota.used_bytes(request.organisation),  # type: ignore[attr-defined]
        "quota": settings.ORGANISATION_QUOTA_BYTES,
    }
    return render(request, "intake/upload.html", context)
