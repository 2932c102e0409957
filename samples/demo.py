"""`make demo`: start the workbench, submit samples/voice-agent with the `workbench` command, keep report and plan.

At its end the plan is served, while the workbench stops.
"""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from samples.serve_plan import serve_and_ask
from workbench.cli.client import ApiClient
from workbench.cli.errors import CliError
from workbench.cli.follow import OVER
from workbench.embedded import EmbeddedError, Workbench

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "samples" / "voice-agent"
OUTPUT = ROOT / "demo"
VERDICTS = {0: "met", 1: "missed", 4: "not enough samples", 6: "too close to call"}
"""Exit codes of `workbench submit --wait` that end in a verdict: each is a successful demo."""


def main() -> int:
    """The exit status: 0 when a verdict was reached, whatever it is."""
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    OUTPUT.mkdir(exist_ok=True)
    print("Starting Redis, web and workers …", flush=True)
    try:
        with Workbench(data=OUTPUT / "data", port=0, login=("--token", "--json")) as workbench:
            classes = sorted({device.gpu_class for device in workbench.devices})
            where = "this machine's CPU: no GPU was found" if classes == ["cpu"] else f"GPU: {', '.join(classes)}"
            print(f"Serving on {workbench.url}; measuring on {where}.", flush=True)
            code = _demonstrate(workbench)
    except (EmbeddedError, CliError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; nothing is left running.", file=sys.stderr)
        return 130
    print(f"Everything that was started is stopped. {time.monotonic() - began:.0f} s in all.")
    return code


def _demonstrate(workbench: Workbench) -> int:
    login = json.loads(workbench.login)
    api = ApiClient(workbench.url, login["token"])
    for run in api.rows("/runs", 200):  # one that an interrupted demo left behind would disturb the measurement
        if run["state"] not in OVER:
            api.post(f"/runs/{run['id']}/cancel", {})
    program = str(Path(sys.executable).parent / "workbench")
    env = {**os.environ, "WORKBENCH_URL": workbench.url, "WORKBENCH_TOKEN": login["token"]}
    sla = SAMPLE / "sla.yaml"
    print(f"$ workbench submit {SAMPLE.relative_to(ROOT)} --sla {sla.relative_to(ROOT)} --wait", flush=True)
    code = subprocess.run([program, "submit", str(SAMPLE), "--sla", str(sla), "--wait"], env=env).returncode
    if code not in VERDICTS:
        print(f"demo: no verdict was reached (exit status {code}); logs: {OUTPUT / 'data' / 'log'}", file=sys.stderr)
        return 1
    (run,) = api.rows("/runs", 1)
    (OUTPUT / "plan.json").write_text(json.dumps(api.get(f"/runs/{run['id']}/plan"), indent=2))
    (OUTPUT / "report.html").write_bytes(api.content(f"/runs/{run['id']}/report"))
    print("Wrote demo/plan.json and demo/report.html.", flush=True)
    with ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(workbench.stop)
        answered = serve_and_ask(OUTPUT / "plan.json", SAMPLE, ROOT)
        stopped.result()
        return 0 if answered else 1


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
