"""`workbench up`: serve until Ctrl-C."""

import signal
import sys
import threading

from workbench.embedded.process import EmbeddedError
from workbench.embedded.stack import Workbench


def main(port: int = 8000) -> int:
    """Serve on 127.0.0.1 until Ctrl-C or SIGTERM; the exit status."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    try:
        print("starting Redis, web and workers …", flush=True)
        with Workbench(port=port) as workbench:
            print(workbench.manage("create_login").strip())
            devices = ", ".join(device.gpu_class for device in workbench.devices)
            print(f"serving on {workbench.url}  ·  workers for: {devices}  ·  logs in {workbench.logs}")
            print("Ctrl-C stops everything.", flush=True)
            workbench.watch(stopping)
            print("\nstopping …", flush=True)
    except EmbeddedError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    return 0
