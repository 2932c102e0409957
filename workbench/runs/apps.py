from django.apps import AppConfig


class RunsConfig(AppConfig):
    """Runs of the pipeline: their states, stages, events and artifacts."""

    default_auto_field = "django.db.models.BigAutoField"
    name = "workbench.runs"
