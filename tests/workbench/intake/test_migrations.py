"""Databases of the first version upgrade: their models keep working, by the digests of today."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from kernels.model_files.digests import content_digest, model_digest, plan_digest
from workbench.intake.models import Model
from workbench.intake.services.catalogue import model_for

CONFIG = {"model_type": "llama", "hidden_size": 8}
WEIGHTS = [("config.json", "a" * 64), ("model.safetensors", "b" * 64), ("README.md", "c" * 64)]
GENERATED = [("config.json", "d" * 64), ("tokenizer.json", "e" * 64)]


@pytest.fixture
def first_version(transactional_db: None) -> Iterator[Any]:
    """The database as the first version of the app's tables had it; afterwards it is today's again."""
    executor = MigrationExecutor(connection)
    today = executor.loader.graph.leaf_nodes()
    executor.migrate([("intake", "0001_initial")])
    executor.loader.build_graph()
    accounts = executor.loader.graph.leaf_nodes("accounts")
    yield executor.loader.project_state([("intake", "0001_initial"), *accounts]).apps
    executor = MigrationExecutor(connection)
    executor.migrate(today)


def _upgrade() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("intake"))


def _row(apps: Any, organisation: Any, digest: str, files: Any, manifest: dict[str, Any]) -> str:
    row = apps.get_model("intake", "Model").objects.create(
        organisation=organisation, name="mine", digest=digest, manifest=manifest | {"digest": digest}
    )
    for path, sha256 in files:
        apps.get_model("intake", "StoredFile").objects.create(model=row, path=path, sha256=sha256, size=1)
    return str(row.pk)


def _manifest(files: Any, generated: bool) -> dict[str, Any]:
    return {
        "name": "mine",
        "source": "upload",
        "config": CONFIG,
        "files": [{"path": path, "sha256": sha256, "size": 1} for path, sha256 in files],
        "generated": generated,
        "architecture": "LlamaForCausalLM",
        "model_type": "llama",
        "kind": "decoder",
        "parameters": 1,
        "weight_bytes": 2,
    }


def test_models_of_the_first_version_get_both_digests(first_version: Any) -> None:
    organisation = first_version.get_model("accounts", "Organisation").objects.create(name="Voice")
    old = [plan_digest(1, CONFIG, files, generated) for files, generated in ((WEIGHTS, False), (GENERATED, True))]
    whole = _row(first_version, organisation, old[0], WEIGHTS, _manifest(WEIGHTS, False))
    generated = _row(first_version, organisation, old[1], GENERATED, _manifest(GENERATED, True))
    broken = _row(first_version, organisation, "f" * 64, [], {"kind": 3})
    _upgrade()
    rows = {str(row.pk): row for row in Model.objects.all()}
    assert rows[whole].content_digest == content_digest(WEIGHTS) == old[0], "workloads name it by this one"
    assert rows[whole].digest == model_digest(CONFIG, WEIGHTS, generated=False)
    assert rows[generated].content_digest == content_digest(GENERATED)
    assert rows[generated].digest == model_digest(CONFIG, GENERATED, generated=True) != old[1]
    assert (rows[broken].digest, rows[broken].content_digest) == ("f" * 64, "f" * 64)
    for key in (whole, generated):
        facts = rows[key].facts
        assert (facts.digest, facts.content_digest) == (rows[key].digest, rows[key].content_digest)
        for reference in (facts.digest, facts.content_digest):
            assert str(model_for(rows[key].organisation, None, reference).pk) == key


def test_catalogue_models_keep_their_digest(first_version: Any) -> None:
    organisation = first_version.get_model("accounts", "Organisation").objects.create(name="Voice")
    files = [("config.json", "a" * 64)]
    digest = plan_digest(1, CONFIG, files, generated=True)
    manifest = _manifest(files, True) | {"source": "catalogue"}
    key = _row(first_version, organisation, digest, files, manifest)
    _upgrade()
    assert Model.objects.get(pk=key).digest == digest
