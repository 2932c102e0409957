"""`manage.py` in a shell."""

import os
import signal
import subprocess
import sys
from pathlib import Path

MANAGE = Path(__file__).parents[2] / "manage.py"


def test_a_reader_that_has_ended_costs_no_traceback(tmp_path):
    """As of `manage.py export_audit | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"WORKBENCH_DATA": str(tmp_path)}
    command = [sys.executable, str(MANAGE), "diffsettings"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
