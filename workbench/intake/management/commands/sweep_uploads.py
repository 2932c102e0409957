"""Removes abandoned uploads."""

from typing import Any

from django.core.management.base import BaseCommand

from workbench.intake.services import sweep_uploads


class Command(BaseCommand):
    help = "Removes uploads that nobody has touched for a day, with what had been received."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{sweep_uploads()} abandoned uploads removed")
