"""`make demo`: start the workbench, submit samples/voice-agent with the `workbench` command, keep report and plan.

At its end the plan is served.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import httpx

from samples.serve_plan import serve_and_ask
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
        with Workbench(data=OUTPUT / "data", port=0) as workbench:
            classes = sorted({device.gpu_class for device in workbench.devices})
            where = "this machine's CPU: no GPU was found" if classes == ["cpu"] else f"GPU: {', '.join(classes)}"
            print(f"Serving on {workbench.url}; measuring on {where}.", flush=True)
            code = _demonstrate(_command(workbench))
    except EmbeddedError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; nothing is left running.", file=sys.stderr)
        return 130
    print(f"Everything that was started is stopped. {time.monotonic() - began:.0f} s in all.")
    return code


def _command(workbench: Workbench) -> "Command":
    login = json.loads(workbench.manage("create_login", "--token", "--json"))
    return Command({**os.environ, "WORKBENCH_URL": workbench.url, "WORKBENCH_TOKEN": login["token"]})


class Command:
    """The `workbench` command with an address and a token."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.program = str(Path(sys.executable).parent / "workbench")

    def run(self, *arguments: str) -> int:
        """Run it on this terminal; its exit status."""
        return subprocess.run([self.program, *arguments], env=self.env, check=False).returncode

    def read(self, *arguments: str) -> Any:
        """What it prints as JSON."""
        done = subprocess.run([self.program, *arguments, "--json"], env=self.env, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def cancel_unfinished(self) -> None:
        """Runs that an interrupted demo left behind would be taken up again and disturb the measurement."""
        for run in self.read("runs"):
            if run["state"] in ("queued", "running"):
                address = f"{self.env['WORKBENCH_URL']}/api/v1/runs/{run['id']}/cancel"
                httpx.post(
                    address, headers={"Authorization": f"Bearer {self.env['WORKBENCH_TOKEN']}"}
                ).raise_for_status()


def _demonstrate(command: Command) -> int:
    sla = SAMPLE / "sla.yaml"
    command.cancel_unfinished()
    print(f"$ workbench submit {SAMPLE.relative_to(ROOT)} --sla {sla.relative_to(ROOT)} --wait", flush=True)
    code = command.run("submit", str(SAMPLE), "--sla", str(sla), "--wait")
    if code not in VERDICTS:
        print(f"demo: no verdict was reached (exit status {code}); logs: {OUTPUT / 'data' / 'log'}", file=sys.stderr)
        return 1
    run = command.read("runs", "--limit", "1")[0]["id"]
    failed = command.run("report", run, "--output", str(OUTPUT / "report.html"))
    failed |= command.run("plan", run, "--output", str(OUTPUT / "plan.json"))
    served = not failed and serve_and_ask(OUTPUT / "plan.json", SAMPLE, ROOT)
    return 0 if served else 1


def _interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
