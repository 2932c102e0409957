"""No process of the site reads a pickle: nothing imports it, and every cache works where none can be read."""

import ast
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from kernels.load.server_process import reserve_port
from tests.programs import ROOT, python
from tests.waiting import wait_for
from workbench import broker as messages
from workbench.celery import app as ledger_app
from workbench.embedded import broker
from workbench.web import cache
from workbench.web.cache import ForgivingFolderCache, ForgivingRedisCache, InProcessCache
from workers.confinement.confine import SYSTEM_WRITABLE
from workers.gpu import app as gpu_app

NAMES = "pickle _pickle cPickle cloudpickle dill joblib jsonpickle marshal shelve torch"
RUNS_CODE = set(NAMES.split())
"""Modules that run code when they read, or may. torch.load reads pickles."""
READERS = ("load", "loads", "Unpickler", "dump", "dumps", "Pickler")


def _imported(source: Path) -> set[str]:
    result = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            result |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            result.add(node.module.partition(".")[0])
    return result


def test_no_module_and_no_cache_of_the_site_reads_pickles(settings):
    sources = [*(ROOT / "workbench").rglob("*.py"), *(ROOT / "workers" / "documents").rglob("*.py")]
    assert len(sources) > 100
    assert {str(source): bad for source in sources if (bad := _imported(source) & RUNS_CODE)} == {}
    text = Path(django_settings.BASE_DIR, "workbench", "settings.py").read_text()
    assert "django.core.cache" not in text
    assert all(item["BACKEND"].startswith("workbench.web.cache.") for item in settings.CACHES.values())
    assert settings.SESSION_SERIALIZER == "django.contrib.sessions.serializers.JSONSerializer"


@pytest.mark.parametrize("app", [ledger_app, gpu_app, messages._sender("ledger"), messages._sender("gpu.cpu")])
def test_celery_accepts_and_sends_json_alone(app):
    conf = app.conf
    assert set(conf.accept_content) == {"json"}
    assert set(conf.result_accept_content or conf.accept_content) == {"json"}
    assert {conf.task_serializer, conf.result_serializer, conf.event_serializer} == {"json"}
    assert set(app.control.mailbox.accept) == {"json"}


@pytest.fixture(params=["Redis", "folder", "memory"])
def any_cache(request, tmp_path):
    if request.param == "folder":
        yield ForgivingFolderCache(str(tmp_path / "pages"), {})
    elif request.param == "memory":
        yield InProcessCache(str(tmp_path), {})
    else:
        service, urls = broker.redis_service(tmp_path, tmp_path / "redis.log", reserve_port())
        service.start()
        made = ForgivingRedisCache(urls.cache, {"KEY_PREFIX": "cache"})

        def answers() -> bool:
            cache._left_alone_until.clear()
            made.set("asked", 1)
            return made.get("asked") == 1

        wait_for(answers, 120, "Redis")
        yield made
        service.stop()


def test_a_cache_works_where_no_pickle_can_be_read_or_written(any_cache, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a pickle")

    for name in READERS:
        monkeypatch.setattr(pickle, name, refuse)
    for value in (3, True, "text <b>", [1.5, "a"], None):
        any_cache.set("key", value, 60)
        assert any_cache.get("key", "nothing") == value
        assert any_cache.has_key("key")
    assert any_cache.get("absent", "nothing") == "nothing"
    assert any_cache.delete("key")
    assert not any_cache.has_key("key")
    if not isinstance(any_cache, ForgivingFolderCache):
        assert any_cache.add("count", 0, 60)
        assert not any_cache.add("count", 5, 60)
        assert [any_cache.incr("count"), any_cache.incr("count", -1)] == [1, 0]
        with pytest.raises(ValueError, match="absent"):
            any_cache.incr("absent")


def test_a_page_that_somebody_else_wrote_or_that_cannot_be_kept_counts_as_absent(tmp_path):
    pages = ForgivingFolderCache(str(tmp_path), {})
    pages.set("page", ["<p>", []], 60)
    (file,) = tmp_path.iterdir()
    file.write_bytes(pickle.dumps(("<p>", [])))
    assert pages.get("page") is None
    pages.set("page", "old", -1)
    assert pages.get("page") is None
    cache = ForgivingFolderCache(str(tmp_path / "pages"), {})
    (tmp_path / "pages").rmdir()
    (tmp_path / "pages").write_text("")
    cache.set("run", b"page")
    assert cache.get("run") is None


FIRST_PROCESS = """
import json, os
from workbench.serving.worker import BufferingWorker
BufferingWorker.setup()
from django.conf import settings
configured = settings.configured
cache = settings.CACHES["results"]
print(json.dumps([configured, cache["BACKEND"], cache["LOCATION"], oct(os.stat(cache["LOCATION"]).st_mode)]))
"""


def test_the_first_process_makes_the_folder_and_removes_it(tmp_path):
    env = {"DJANGO_SETTINGS_MODULE": "workbench.settings", "WORKBENCH_DATA": str(tmp_path)}
    configured, backend, folder, mode = json.loads(python("-c", FIRST_PROCESS, env=env))
    assert not configured, "the folder is made before a site says which settings it has"
    assert (backend, mode) == ("workbench.web.cache.ForgivingFolderCache", "0o40700")
    assert not any(Path(folder).is_relative_to(writable) for writable in SYSTEM_WRITABLE), "where no stage may write"
    assert not Path(folder).exists()


def test_another_process_finds_what_one_has_kept(tmp_path):
    ForgivingFolderCache(str(tmp_path), {}).set("run", ["page", ["verify"]])
    assert ForgivingFolderCache(str(tmp_path), {}).get("run") == ["page", ["verify"]]
