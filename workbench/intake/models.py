"""Models, the uploads they come by, and the workloads about them."""

from typing import Any, ClassVar, Self, TypeVar

import pydantic
from django.apps import apps
from django.db import models
from django.utils.functional import cached_property

from kernels.model_files import answer_of_config
from workbench.accounts.querysets import CreatedRecord, OrganisationQuerySet
from workbench.api.sentences import sentence, sentences
from workbench.storage.row_bytes import row_bytes
from workers.documents.model import ModelManifest
from workers.documents.recording import Recording as RecordingDocument
from workers.documents.workload import Workload as WorkloadDocument

Stored = TypeVar("Stored", bound=pydantic.BaseModel)


class Unreadable(ValueError):
    """A stored workload or manifest is no valid document any more; the message is a sentence."""


def _read_stored(kind: type[Stored], stored: Any, what: str) -> Stored:
    """The stored JSON as a document; `what` names it in the sentence of the Unreadable that is raised otherwise."""
    try:
        return kind.model_validate(stored)
    except pydantic.ValidationError as error:
        reason = sentence(sentences(error)[0])
        raise Unreadable(f"This version cannot read the stored {what}: {reason}") from error


class Model(CreatedRecord):
    """A model of an organisation: uploaded, or a catalogue entry from its first use on.

    `manifest` is a `ModelManifest`; the files' contents are blobs. `size` counts the bytes of the files. `digest` names
    the model in plans; `content_digest` names these very files (`kernels.model_files.digests`).
    """

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="models")
    name = models.CharField(max_length=120)
    digest = models.CharField(max_length=64)
    content_digest = models.CharField(max_length=64)
    manifest = models.JSONField()
    row_bytes = row_bytes("manifest")
    size = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint("organisation", "content_digest", name="one_model_per_content"),)
        indexes = (
            models.Index(fields=("organisation", "digest"), name="models_of_digest"),
            models.Index(fields=("organisation", "row_bytes"), name="model_bytes"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def facts(self) -> ModelManifest:
        """The manifest as a document. Raises Unreadable."""
        manifest = _read_stored(ModelManifest, self.manifest, f"manifest of {self.name}")
        if "counted" in manifest.model_fields_set:
            return manifest
        return manifest.model_copy(update={"counted": answer_of_config(manifest.config).unit})

    @property
    def reading(self) -> tuple[ModelManifest | None, str]:
        """The manifest and "", or None and the sentence that says why it cannot be read."""
        try:
            return self.facts, ""
        except Unreadable as error:
            return None, str(error)


class StoredFile(models.Model):
    """One file of a model; its content is the blob `sha256`, which several models may share."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64, db_index=True)
    size = models.BigIntegerField()

    class Meta:
        ordering = ("path",)
        constraints = (models.UniqueConstraint("model", "path", name="one_file_per_path"),)

    def __str__(self) -> str:
        return self.path


class UploadQuerySet(OrganisationQuerySet):
    def open(self) -> Self:
        """Uploads that still have files."""
        return self.filter(state__in=(Upload.State.RECEIVING, Upload.State.CHECKING))

    def waiting(self) -> Self:
        """Uploads with something to check, the oldest first: all their files, or a model's config.json."""
        of_config = models.Q(state=Upload.State.RECEIVING, config_waits=True)
        return self.filter(models.Q(state=Upload.State.CHECKING) | of_config).order_by("touched_at")


class Upload(CreatedRecord):
    """A model or a recording that is being uploaded.

    Its files end with the check. The row stays for a day, so that the caller can ask what came of it: `model`,
    `recording` or `problem`, a `ProblemDocument`. `config_waits`: a model's config.json has
    come and was not checked yet.
    """

    class Holds(models.TextChoices):
        MODEL = "model"
        RECORDING = "recording"

    class State(models.TextChoices):
        RECEIVING = "receiving"
        CHECKING = "checking"
        FINISHED = "finished"
        REFUSED = "refused"

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="uploads")
    name = models.CharField(max_length=120)
    holds = models.CharField(max_length=9, choices=Holds, default=Holds.MODEL)
    state = models.CharField(max_length=9, choices=State, default=State.RECEIVING)
    config_waits = models.BooleanField(default=False)
    problem = models.JSONField(null=True)
    model = models.ForeignKey(Model, on_delete=models.CASCADE, null=True, related_name="+")
    recording = models.ForeignKey("intake.Recording", on_delete=models.CASCADE, null=True, related_name="+")
    touched_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[Any] = UploadQuerySet.as_manager()
    left_out: list[str] = []
    """Of an upload that was just announced: what is never read of its folder. It is not kept."""

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return self.name


class UploadFile(models.Model):
    """One file of an upload: `received` of its `size` bytes are on the disk.

    `sha256` is the customer's statement; `digest` is computed when all bytes have arrived.
    """

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="files")
    number = models.PositiveIntegerField()
    path = models.CharField(max_length=200)
    size = models.BigIntegerField()
    received = models.BigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64, blank=True)

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint("upload", "number", name="one_upload_file_per_number"),)

    def __str__(self) -> str:
        return self.path


class Recording(CreatedRecord):
    """Recorded traffic of an organisation; its content is the blob `sha256`. `facts` is a `RecordingFacts`.

    `touched_at` is when it was last handed in.
    """

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="recordings")
    name = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64, db_index=True)
    size = models.BigIntegerField()
    facts = models.JSONField()
    touched_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint("organisation", "sha256", name="one_recording_per_content"),)

    def __str__(self) -> str:
        return self.name

    @property
    def document(self) -> RecordingDocument:
        """The recording as the worker and the pages read it."""
        return RecordingDocument(name=self.name, sha256=self.sha256, size=self.size, **self.facts)


LONGEST_PROJECT = 80
RUNS_NAMED = 25
"""How many of a workload's runs the API names beside it."""


class WorkloadQuerySet(OrganisationQuerySet):
    def with_newest_runs(self) -> Self:
        """Workloads that know their `newest_runs`, by one query for all of them."""
        runs = apps.get_model("runs", "Run").objects.all()[:RUNS_NAMED]
        return self.prefetch_related(models.Prefetch("runs", runs, to_attr="newest_runs"))


class Workload(CreatedRecord):
    """A model with an SLA; `document` is a `workers.documents.workload.Workload`.

    `endpoint_key` is the encrypted key of the document's endpoint, which the document itself never holds. `newest_run`
    is kept beside the runs, so that a list of workloads needs no search among them. `project` groups workloads.
    """

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="workloads")
    name = models.CharField(max_length=120)
    document = models.JSONField()
    endpoint_key = models.TextField(blank=True, default="")
    row_bytes = row_bytes("document", "endpoint_key")
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="workloads")
    recording = models.ForeignKey(Recording, on_delete=models.PROTECT, null=True, related_name="workloads")
    newest_run = models.ForeignKey("runs.Run", on_delete=models.SET_NULL, null=True, related_name="+")
    archived_at = models.DateTimeField(null=True)
    project = models.CharField(max_length=LONGEST_PROJECT, blank=True)

    objects: ClassVar[Any] = WorkloadQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("organisation", "row_bytes"), name="workload_bytes"),)

    def __str__(self) -> str:
        return self.name

    @property
    def sla(self) -> WorkloadDocument:
        """The document, validated. Raises Unreadable."""
        return _read_stored(WorkloadDocument, self.document, "workload")

    @property
    def reading(self) -> tuple[WorkloadDocument | None, str]:
        """The document and "", or None and the sentence that says why it cannot be read."""
        try:
            return self.sla, ""
        except Unreadable as error:
            return None, str(error)

    @cached_property
    def newest_runs(self) -> list[Any]:
        """The newest of its runs."""
        return list(self.runs.all()[:RUNS_NAMED])
