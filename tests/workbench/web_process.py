"""A real web process, for what the test client cannot show: memory, the disk, broken connections."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx

from kernels.load.server_process import reserve_port
from tests.migrated import copy_database
from tests.programs import ROOT, python
from tests.redis_settings import redis_settings
from tests.waiting import wait_for


class WebProcess:
    """A web process with its data in `folder`: `api` sends a member's token, `pages` is logged in, `others` are
    the headers of a member of another organisation."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.port = folder, reserve_port()
        self.url = f"http://127.0.0.1:{self.port}"
        more = {"WORKBENCH_DATA": str(folder), "WORKBENCH_URL": self.url, **settings}
        self.env = {**os.environ, **more, "DJANGO_SETTINGS_MODULE": "workbench.settings"}
        self.env |= {"API_REQUESTS_PER_MINUTE": "9999", **redis_settings(1)}

    def start(self) -> None:
        """Make its people and wait until it answers."""
        copy_database(self.folder)
        made = json.loads(python("-m", "tests.workbench.web_seed", env=self.env).splitlines()[-1])
        bearer = {"Authorization": f"Bearer {made['token']}"}
        self.api = httpx.Client(base_url=f"{self.url}/api/v1", headers=bearer, timeout=120)
        self.others = {"Authorization": f"Bearer {made['others']}"}
        self.pages = httpx.Client(base_url=self.url, cookies={"sessionid": made["session"]}, timeout=120)
        command = ["-m", "gunicorn", "workbench.wsgi", "--bind", f"127.0.0.1:{self.port}", "--threads", "4"]
        command += ["--worker-class", "workbench.serving.worker.BufferingWorker", "--no-control-socket"]
        self.web = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=self.env, stdout=sys.stderr)

        def answers() -> bool:
            try:
                return self.api.get("/me").raise_for_status().is_success
            except httpx.TransportError:
                return False

        wait_for(answers, 300, "the web process", processes={"gunicorn": self.web})

    def stop(self) -> None:
        self.web.terminate()
        self.web.wait()
