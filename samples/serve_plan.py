"""The end of `make demo`: the plan is served, and asked one thing with curl."""

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from kernels.load.server_process import NotStarted, reserve_port, run_server

READY_SECONDS, ANSWER_SECONDS = 300, 60
NAME = "voice-agent"


def serve_and_ask(plan: Path, model: Path, root: Path) -> bool:
    """Serves the plan's model, asks it one completion, and stops it. Prints both commands; whether it answered."""
    port = reserve_port()
    shown = f"python -m kernels serve --plan {plan.relative_to(root)} --model {model.relative_to(root)} --port {port}"
    print(f"$ {shown} &", flush=True)
    serve = [sys.executable, "-m", "kernels", "serve"]
    command = [*serve, "--plan", str(plan), "--model", str(model), "--port", str(port)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        try:
            with run_server(command, f"{url}/health", log, READY_SECONDS, environment):
                answer = ask(f"{url}/v1/completions", f'{{"model": "{NAME}", "prompt": "A list is", "max_tokens": 20}}')
        except (NotStarted, OSError, subprocess.SubprocessError) as error:
            print(f"demo: the plan was not served: {error}", file=sys.stderr)
            return False
    print(answer, flush=True)
    return '"choices"' in answer


def ask(url: str, body: str) -> str:
    """The answer to a POST, by curl where it is installed."""
    print(f"$ curl {url} -d '{body}'", flush=True)
    curl = shutil.which("curl")
    if curl:
        called = [curl, "--silent", "--show-error", "--max-time", str(ANSWER_SECONDS), url, "-d", body]
        return subprocess.run(called, check=True, capture_output=True, text=True).stdout
    try:
        with urllib.request.urlopen(url, body.encode(), timeout=ANSWER_SECONDS) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()
