"""Models by reference: a catalogue entry by its name, an uploaded model by one of its digests."""

import hashlib
import json
from functools import cache
from typing import Any

from django.db import transaction

from kernels.model_files import ModelFacts, answer_of_config, catalogue, inspect_config
from kernels.model_files.digests import content_digest, model_digest
from workbench.api.sentences import invalid
from workbench.intake import blobs
from workbench.intake.models import Model, StoredFile
from workers.documents.model import ModelFile, ModelManifest

SEED = 0
"""The seed of generated weights."""


@cache
def entries() -> tuple[tuple[str, str, ModelFacts], ...]:
    """Name, summary and facts of every catalogue entry."""
    configs = [(name, *catalogue.entry(name)) for name in catalogue.names()]
    return tuple((name, summary, inspect_config(config)) for name, config, summary in configs)


def model_for(organisation: Any, user: Any, reference: str) -> Model:
    """The organisation's model: a catalogue entry (its row is made on first use) or an uploaded model's digest.

    A content digest names one model; a model digest may name several uploads: the newest is taken.
    Raises Problem 422 for the field `model`.
    """
    if reference in catalogue.names():
        return _from_catalogue(organisation, user, reference)
    models = Model.objects.filter(organisation=organisation)
    model = models.filter(content_digest=reference).first() or models.filter(digest=reference).first()
    if model is None:
        there = ", ".join(catalogue.names())
        reason = f"there is no model {reference[:80]!r}; give the digest of a model of yours or one of {there}"
        if uploaded := models.filter(name=reference).first():
            reason = f"give the digest of your model {reference!r} in place of its name: {uploaded.content_digest}"
        raise invalid([{"field": "model", "reason": reason}])
    return model


def _from_catalogue(organisation: Any, user: Any, name: str) -> Model:
    manifest, raw = catalogue_manifest(name)
    model = Model.objects.filter(organisation=organisation, content_digest=manifest.content_digest).first()
    if model is not None and model.reading[0] is not None:
        return model
    blobs.store([raw])
    return save_model(organisation, user, manifest)


@cache
def catalogue_manifest(name: str) -> tuple[ModelManifest, bytes]:
    """The document of a catalogue entry, and the content of its config.json: the same objects each time, not to be
    changed. Raises KeyError when there is none."""
    config, _ = catalogue.entry(name)
    raw = json.dumps(config, indent=2).encode()
    file = ModelFile(path="config.json", sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))
    return manifest_of(inspect_config(config), name, "catalogue", [file]), raw


def manifest_of(facts: ModelFacts, name: str, source: Any, files: list[ModelFile]) -> ModelManifest:
    """The model's document, with both its digests."""
    hashes = [(file.path, file.sha256) for file in files]
    return ModelManifest(
        digest=model_digest(facts.config, hashes, facts.generated, SEED),
        content_digest=content_digest(hashes),
        name=name,
        source=source,
        files=files,
        seed=SEED,
        counted=answer_of_config(facts.config).unit,
        **facts.model_dump(exclude={"dtype", "files"}),
    )


@transaction.atomic
def save_model(organisation: Any, user: Any, manifest: ModelManifest) -> Model:
    """The row of a model whose files are blobs already; the row there is, when the organisation has these very files.

    A manifest that cannot be read any more is replaced.
    """
    model, created = Model.objects.get_or_create(
        organisation=organisation,
        content_digest=manifest.content_digest,
        defaults={
            "digest": manifest.digest,
            "name": manifest.name,
            "manifest": manifest.model_dump(mode="json"),
            "size": sum(file.size for file in manifest.files),
            "created_by": user,
        },
    )
    if created:
        rows = [StoredFile(model=model, path=f.path, sha256=f.sha256, size=f.size) for f in manifest.files]
        StoredFile.objects.bulk_create(rows)
    elif model.reading[0] is None:
        model.manifest = manifest.model_dump(mode="json")
        model.save(update_fields=["manifest"])
    return model
