"""What one organisation hands in changes nothing of another's run: a worker gets the files of the run that it holds."""

import json
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from kernels.model_files import catalogue
from tests import sample_results
from tests.workbench.intake.conftest import upload_model
from workbench import urls as pages
from workbench.accounts.models import User
from workbench.intake.services.workloads import create_workload
from workbench.runs import services
from workbench.worker_site import urls as worker_site
from workers.config import WorkerConfig
from workers.documents.worker_api import Claim, StageKey
from workers.gpu import _Files
from workers.host.client import Client
from workers.host.model_cache import ModelCache

pytestmark = pytest.mark.urls(__name__)
urlpatterns = [*pages.urlpatterns, *worker_site.urlpatterns]
"""One process serves both sites here."""

NAME = "tiny-gemma"
OTHER_WHITE_SPACE = json.dumps(catalogue.entry(NAME)[0], indent=7).encode()


@pytest.fixture
def worker(live_server, settings, tmp_path):
    """`worker(model, user)`: what the worker lays out for the first stage of a new run of the model."""
    config = replace(WorkerConfig.from_environment(), url=live_server.url, token=settings.WORKER_TOKEN, cache=tmp_path)

    def lay_out(model: str, user: User) -> dict[str, bytes]:
        document = sample_results.workload().model_copy(update={"model": model})
        membership = user.memberships.get()
        run = services.create_run(create_workload(membership.organisation, user, document), user)
        key = StageKey(run_id=str(run.id), stage="admit", attempt=1)
        with closing(Client(config)) as client:
            claimed = client.claim(Claim(**key.model_dump(), worker="w"))
            files = _Files(client, key, threading.Event())
            with ModelCache(tmp_path / "models", 2**30).model(claimed.model, files) as directory:
                return {
                    str(path.relative_to(directory)): path.read_bytes()
                    for path in directory.rglob("*")
                    if path.is_file()
                }

    return lay_out


@pytest.mark.django_db(transaction=True)
def test_no_upload_changes_a_run_of_the_catalogues_model(api, engineer, foreigner, worker):
    alone = {"config.json": OTHER_WHITE_SPACE}
    more = alone | {"quality.txt": b"a stranger's words", "vocab.json": b"{}"}
    for user, files in ((foreigner, alone), (foreigner, more), (engineer, alone | {"vocab.json": b"[]"})):
        answer = upload_model(api(user), files)
        assert answer.status_code == 201, answer.content
    laid_out = worker(NAME, engineer)
    assert list(laid_out) == ["config.json"]
    assert json.loads(laid_out["config.json"]) == catalogue.entry(NAME)[0]
    assert laid_out["config.json"] != OTHER_WHITE_SPACE


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_two_organisations_each_run_their_own_files(api, engineer, foreigner, worker, first):
    ours, theirs = ({"config.json": OTHER_WHITE_SPACE, "quality.txt": text} for text in (b"our words", b"their words"))
    handed_in = [(engineer, ours), (foreigner, theirs)]
    models = {
        user.pk: upload_model(api(user), files).json()["digest"]
        for user, files in (handed_in if first == "ours" else reversed(handed_in))
    }
    for user, files in handed_in:
        assert worker(models[user.pk], user) == files


@pytest.mark.django_db(transaction=True)
def test_files_come_by_any_name_and_another_tokenizer_makes_another_model(api, engineer, worker):
    names = ("a b.json", "100%41.json", "why?.json", "#1.json", "1_ж/ü&c=d;e.json")
    old = {"config.json": OTHER_WHITE_SPACE} | {name: json.dumps(name).encode() for name in names}
    new = old | {"vocab.json": b'{"b": 1}'}
    models = [upload_model(api(engineer), files).json() for files in (old | {"vocab.json": b'{"a": 1}'}, new)]
    assert models[0]["digest"] != models[1]["digest"]
    assert worker(models[0]["content_digest"], engineer) == old | {"vocab.json": b'{"a": 1}'}
    assert worker(models[1]["digest"], engineer) == new
