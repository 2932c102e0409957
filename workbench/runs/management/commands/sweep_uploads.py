"""Removes abandoned uploads, and blobs that nothing refers to."""

from typing import Any

from django.core.management.base import BaseCommand

from workbench.intake.services.uploads import sweep_uploads
from workbench.runs.garbage import collect_when_due


class Command(BaseCommand):
    help = "Removes uploads that nobody has touched for a day, with what had been received."

    def handle(self, *args: Any, **options: Any) -> None:
        removed = sweep_uploads()
        collect_when_due()
        self.stdout.write(f"{removed} abandoned uploads removed")
