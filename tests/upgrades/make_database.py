"""Makes a database of this version for later versions to upgrade: `python -m tests.upgrades.make_database FILE`.

FILE is a .tar.xz of `database.sql`, SQLite's own dump, and `blobs/`. Its finished runs are those that
benchmarks/results/h200 holds, as their workers reported them; the runs in other states have made-up results. A FILE
that was committed is never made again: `test_upgrades.py` upgrades all of them.
"""

import os
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path


def seed() -> None:
    """People, models, price books, and runs and reports in every state."""
    from django.utils import timezone

    from tests import sample_runs
    from tests.workbench.conftest import JsonClient
    from tests.workbench.intake.conftest import MODEL_FILES, upload_model
    from workbench.accounts import services, tokens
    from workbench.accounts.models import Membership, Role, User
    from workbench.home.demo import kept_run
    from workbench.intake.models import Workload
    from workbench.prices.services import add_price_book, price_book
    from workbench.reports.services import freeze, publish, review
    from workbench.runs.models import Run, Worker

    admin = User.objects.create_user("admin@voice.test", "correct horse battery", name="Admin")
    account = User.objects.create_user("account@voice.test", "correct horse battery", name="Account")
    organisation = services.create_organisation("Voice", admin)
    Membership.objects.create(user=account, organisation=organisation, role=Role.ACCOUNT)
    _, secret = tokens.issue(organisation, admin, "build", "write")
    services.invite(organisation, admin, "new@voice.test", Role.ENGINEER)
    book = price_book(organisation)
    add_price_book(organisation, account, book.model_copy(update={"name": "Of the contract"}))
    Worker.objects.create(name="gpu-h200-0@host", gpu_class="h200", last_seen=timezone.now())
    api = JsonClient(headers={"Authorization": f"Bearer {secret}"})
    assert upload_model(api, MODEL_FILES).status_code == 201
    published, reviewed = (
        freeze(kept_run(organisation, admin, name), admin) for name in ("llama-3.2-1b", "llama-3.2-1b-load")
    )
    publish(review(published, account, "Safe to promise, *for this prompt length*."), account)
    review(reviewed, account, "The limit is missed in the tail.")
    freeze(Run.objects.get(id=published.run_id), admin)
    for state, upto in (("queued", "admit"), ("running", "explore"), ("failed", "profile"), ("lost", "verify")):
        sample_runs.run(organisation, admin, state, upto)
    sample_runs.run(organisation, admin, "cancelled", "compose")
    Workload.objects.filter(runs=None).delete()


def main(file: Path) -> None:
    """Writes the archive."""
    with tempfile.TemporaryDirectory(prefix="workbench-upgrade-") as name:
        for setting in ("DATABASE_URL", "REDIS_URL", "GPU_REDIS_URL", "CACHE_URL"):
            os.environ.pop(setting, None)
        os.environ["WORKBENCH_DATA"] = name
        os.environ |= {"DJANGO_SETTINGS_MODULE": "workbench.settings", "ALLOWED_HOSTS": "testserver"}
        import django

        django.setup()
        from django.core.management import call_command

        folder = Path(name)
        call_command("migrate", verbosity=0)
        seed()
        with sqlite3.connect(folder / "db.sqlite3") as connection:
            (folder / "database.sql").write_text("\n".join(connection.iterdump()) + "\n", "utf-8")
        with tarfile.open(file, "w:xz", preset=9) as archive:
            archive.add(folder / "database.sql", "database.sql")
            archive.add(folder / "blobs", "blobs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
