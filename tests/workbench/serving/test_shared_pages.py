"""Rendered results are kept once for all processes of a server, in a folder of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.workers.pipeline.stack import ROOT
from workbench.web.cache import ForgivingFolderCache

FIRST_PROCESS = """
import json, os
from workbench.serving.worker import BufferingWorker
BufferingWorker.setup()
from django.conf import settings
told = settings.CACHES["results"]
print(json.dumps([told["BACKEND"], told["LOCATION"], oct(os.stat(told["LOCATION"]).st_mode)]))
"""


def test_the_first_process_makes_the_folder_and_removes_it(tmp_path: Path) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "workbench.settings", "WORKBENCH_DATA": str(tmp_path)}
    env = {**env, "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", FIRST_PROCESS], cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    backend, folder, mode = json.loads(said.stdout)
    assert backend == "workbench.web.cache.ForgivingFolderCache"
    assert mode == "0o40700"
    assert not Path(folder).exists()


def test_another_process_finds_what_one_has_kept(tmp_path: Path) -> None:
    ForgivingFolderCache(str(tmp_path), {}).set("run", ["page", ["verify"]])
    assert ForgivingFolderCache(str(tmp_path), {}).get("run") == ["page", ["verify"]]


def test_a_folder_that_takes_nothing_fails_no_page(tmp_path: Path) -> None:
    cache = ForgivingFolderCache(str(tmp_path / "pages"), {})
    (tmp_path / "pages").rmdir()
    (tmp_path / "pages").write_text("")
    cache.set("run", b"page")
    assert cache.get("run") is None
