"""Makes a database of this version for later versions to upgrade: `python -m tests.upgrades.make_database FILE`.

FILE is a .tar.xz of `database.sql`, SQLite's own dump, and `blobs/`. Its finished runs are those that
benchmarks/results/h200 holds, as their workers reported them; the runs in other states have made-up results. A FILE
that was committed is never made again: `test_upgrades.py` upgrades all of them.
"""

import json
import os
import re
import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
H200 = ROOT / "benchmarks" / "results" / "h200"


def seed() -> None:
    """People, models, price books, and runs and reports in every state."""
    from django.test import Client
    from django.utils import timezone

    from tests import sample_runs
    from tests.kernels import model_folders
    from tests.workbench.intake.conftest import announce, finish, send_files
    from workbench.accounts import services, tokens
    from workbench.accounts.models import Membership, Role, User
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
    api = Client(headers={"Authorization": f"Bearer {secret}"})
    config = model_folders.LLAMA | {"max_position_embeddings": 512}
    files = {
        "config.json": json.dumps(config).encode(),
        "model.safetensors": model_folders.safetensors(model_folders.weights_of(config)),
        "tokenizer.json": b"{}",
    }
    upload = announce(api, files).json()["id"]
    send_files(api, upload, files)
    assert finish(api, upload, files).status_code == 201
    published, reviewed = (
        freeze(finished_run(organisation, admin, name), admin) for name in ("llama-3.2-1b", "qwen2.5-1.5b")
    )
    publish(review(published, account, "Safe to promise, *for this prompt length*."), account)
    review(reviewed, account, "The limit is missed in the tail.")
    freeze(Run.objects.get(id=published.run_id), admin)
    for state, upto in (("queued", "admit"), ("running", "explore"), ("failed", "profile"), ("lost", "verify")):
        sample_runs.run(organisation, admin, state, upto)
    sample_runs.run(organisation, admin, "cancelled", "compose")
    Workload.objects.filter(runs=None).delete()


def finished_run(organisation: Any, user: Any, name: str) -> Any:
    """The run of benchmarks/results/h200/NAME.json, as its worker reported it, with the files that it wrote."""
    from workbench.intake.services.workloads import create_workload
    from workbench.runs.models import Event, Run, StageRun
    from workbench.runs.services import stage_input
    from workers.documents.worker_api import StageKey
    from workers.documents.workload import Workload as Document
    from workers.report.page import render

    kept = json.loads((H200 / f"{name}.json").read_text("utf-8"))
    facts, results = kept["run"], kept["results"]
    minutes = re.search(r"minutes: ([\d.]+)", kept["sla"])
    under_load = {"load": {"most_users": 64}, "baseline_runner": "vllm"} if results.get("load") else {}
    asked = Document(
        name=f"Voice agent, {name}",
        model=kept["model"],
        objectives=[{"metric": "ttf_n", "n": 64, "percentile": 95 if under_load else 50, "limit": 100}],
        constraints={"minutes": float(minutes[1])} if minutes else {},
        **under_load,
    )
    workload = create_workload(organisation, user, asked)
    times = {key: facts[key] for key in ("started_at", "finished_at")}
    run = Run.objects.create(
        organisation=organisation,
        workload=workload,
        created_by=user,
        gpu_class="h200",
        state="done",
        stage="report",
        verdict=facts["verdict"],
        **times,
    )
    for position, stage in enumerate(facts["stages"]):
        StageRun.objects.create(run=run, position=position, result=results[stage["stage"]], **stage)
    for event in kept["events"]:
        Event.objects.create(run=run, **{key: event[key] for key in ("stage", "attempt", "kind", "message", "data")})
    run.refresh_from_db()
    document = stage_input(run, StageKey(run_id=str(run.id), stage="report", attempt=1))
    results["report"]["html"] |= keep(run, "report.html", "text/html", render(document).encode())
    plan = json.dumps(results["verify"]["plan"], indent=2) + "\n"
    results["report"]["plan"] |= keep(run, "plan.json", "application/json", plan.encode())
    run.stages.filter(stage="report").update(result=results["report"])
    return run


def keep(run: Any, name: str, media_type: str, content: bytes) -> dict[str, Any]:
    """Stores a file of the run; returns its facts."""
    from workbench.intake import blobs
    from workbench.runs.models import StoredArtifact

    sha256, size = blobs.store([content])
    facts = {"name": name, "sha256": sha256, "size": size, "media_type": media_type}
    StoredArtifact.objects.create(run=run, organisation_id=run.organisation_id, stage="report", **facts)
    return facts


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
