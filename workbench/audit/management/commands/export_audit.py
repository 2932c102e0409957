"""`manage.py export_audit`: the whole audit log, of every organisation and of none, as JSON lines."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workbench.audit.models import Entry
from workbench.audit.services import lines


class Command(BaseCommand):
    """Writes entries to the standard output, oldest first."""

    help = "Write the audit log as JSON lines, oldest first, from the entry after --after on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--after", type=int, default=0, help="the id of the last entry that is known already")

    def handle(self, *args: Any, **options: Any) -> None:
        entries = Entry.objects.filter(id__gt=options["after"]).order_by("id")
        for line in lines(entries.iterator()):
            self.stdout.write(line, ending="")
