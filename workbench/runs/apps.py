"""The application of runs."""

from django.apps import AppConfig
from django.db.models.signals import pre_migrate

from workbench.storage.disk import make_shrinkable


class RunsConfig(AppConfig):
    name = "workbench.runs"

    def ready(self) -> None:
        pre_migrate.connect(make_shrinkable, sender=self)
