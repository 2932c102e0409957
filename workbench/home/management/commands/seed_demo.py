"""`manage.py seed_demo --runs N`: an organisation to show the workbench with, or to measure its pages with."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from workbench.accounts.models import Organisation
from workbench.home import demo
from workbench.reports.services import freeze

ALL_WHOLE = 200
"""Up to so many runs each has all its results, of 0.5 MB; of more, one in a hundred."""


class Command(BaseCommand):
    """Makes an organisation of one measured run on an H200 and copies of it, and prints the login of its admin."""

    help = "Create a demo organisation: one measured run on an H200, copies of it, and reports. Prints its login."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--runs", type=int, default=30, help="copies of the measured run (30)")
        parser.add_argument("--organisation", default="Demo")
        parser.add_argument("--email", default="demo@localhost.localdomain")

    def handle(self, *args: Any, **options: Any) -> None:
        runs, name = options["runs"], options["organisation"]
        if not 1 <= runs <= 100_000:
            raise CommandError("--runs: a number from 1 to 100,000")
        if Organisation.objects.filter(name=name).exists():
            raise CommandError(f"There is an organisation {name} already; give another name by --organisation.")
        if not (demo.KEPT_RUNS / "llama-3.2-1b.json").exists():
            raise CommandError("This installation has no measured run to copy.")
        with transaction.atomic():
            call_command("create_login", email=options["email"], name="Demo", organisation=name, stdout=self.stdout)
            organisation = Organisation.objects.get(name=name)
            admin = organisation.memberships.get().user
            first = demo.kept_run(organisation, admin, "llama-3.2-1b")
            complete = 1 if runs <= ALL_WHOLE else 100
            workloads = max(1, runs // 5)
            copied_runs = demo.copies(first, runs, workloads, max(1, workloads // 10), runs // 5, complete)
            demo.copy_reports(freeze(first, admin), copied_runs, runs // 10)
        self.stdout.write(f"runs:     {runs:,} copies of one measured run; their verdicts and times are made up")
