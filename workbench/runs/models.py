"""The tables of runs. Only `state.py` changes a run's state."""

from django.db import models

from workbench.accounts.querysets import CreatedRecord, OrganisationQuerySet
from workbench.storage.row_bytes import row_bytes
from workers.documents.stages import STAGES


class Tag(models.Model):
    """A word that members of an organisation put on runs."""

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=40)

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint("organisation", "name", name="one_tag_per_name"),)

    def __str__(self) -> str:
        return self.name


class Run(CreatedRecord):
    """One workload on its way through the pipeline.

    `state` belongs to the run, not to the verdict. `(stage, attempt)` is the attempt that is queued or running; while
    it runs, `worker` holds it until `lease_until`, by the claim `claim_id`. `published_at` is when its message last
    went to the broker, None when that failed. `usd_before` and `usd_after` are USD for a million at one load, known
    once the run is priced by the price book. `gpu_class_fixed` keeps a class that was asked for, where otherwise a
    live worker decides.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"
        LOST = "lost", "Lost"

    OPEN = (State.QUEUED, State.RUNNING)

    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="runs")
    workload = models.ForeignKey("intake.Workload", on_delete=models.CASCADE, related_name="runs")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    stage = models.CharField(max_length=10, default=STAGES[0])
    attempt = models.PositiveSmallIntegerField(default=1)
    gpu_class = models.CharField(max_length=16)
    gpu_class_fixed = models.BooleanField(default=False)
    verdict = models.CharField(max_length=20, blank=True)
    usd_before = models.FloatField(null=True)
    usd_after = models.FloatField(null=True)
    cancel_requested = models.BooleanField(default=False)
    worker = models.CharField(max_length=200, blank=True)
    heartbeat_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)
    published_at = models.DateTimeField(null=True)
    claim_id = models.UUIDField(null=True, unique=True)
    error = models.JSONField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    tags = models.ManyToManyField(Tag, related_name="runs")

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("state", "lease_until"), name="run_state_lease"),)

    def __str__(self) -> str:
        return f"run {self.id}"

    @property
    def is_open(self) -> bool:
        """Whether the run is queued or running."""
        return self.state in self.OPEN


class StageRun(models.Model):
    """One stage of a run; `result` is set once, by the attempt that finished it."""

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stages")
    position = models.PositiveSmallIntegerField()
    stage = models.CharField(max_length=10)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING)
    attempt = models.PositiveSmallIntegerField(default=1)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress = models.FloatField(default=0)
    message = models.CharField(max_length=500, blank=True)
    partial = models.JSONField(null=True)
    result = models.JSONField(null=True)
    row_bytes = row_bytes("partial", "result")

    class Meta:
        ordering = ("position",)
        indexes = (models.Index(fields=("run", "row_bytes"), name="stage_bytes"),)
        constraints = (models.UniqueConstraint("run", "stage", name="one_row_per_stage"),)

    def __str__(self) -> str:
        return f"{self.stage} of {self.run_id}"


class Event(models.Model):
    """One event of a run's log. Rows are added, never changed."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    stage = models.CharField(max_length=10, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    kind = models.CharField(max_length=20)
    message = models.CharField(max_length=500, blank=True)
    data = models.JSONField(null=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.kind} {self.stage}".strip()


class StoredArtifact(models.Model):
    """A file that a stage kept; its content lies among the blobs under its SHA-256."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="artifacts")
    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.CASCADE, related_name="artifacts")
    stage = models.CharField(max_length=10)
    name = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    media_type = models.CharField(max_length=100, default="application/octet-stream")

    objects = OrganisationQuerySet.as_manager()

    class Meta:
        ordering = ("id",)
        constraints = (models.UniqueConstraint("run", "stage", "name", name="one_artifact_per_name"),)

    def __str__(self) -> str:
        return self.name


class LastSweep(models.Model):
    """When the sweep last began, in one row. A longer pause than SWEEP_SECONDS tells that the workbench was away."""

    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.at}"


class Worker(models.Model):
    """A GPU worker and one GPU class that it serves. `memory_gib` is None where the worker does not tell."""

    name = models.CharField(max_length=200)
    gpu_class = models.CharField(max_length=16)
    last_seen = models.DateTimeField()
    memory_gib = models.FloatField(null=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint("name", "gpu_class", name="one_row_per_worker_class"),)

    def __str__(self) -> str:
        return f"{self.name} ({self.gpu_class})"
