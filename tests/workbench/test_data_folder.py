"""Whose eyes the data directory is closed to, and that no process of ours shares gunicorn's control socket."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = "import workbench.settings"


@pytest.mark.parametrize(("before", "after"), [(None, 0o700), (0o755, 0o750), (0o700, 0o700), (0o2770, 0o2770)])
def test_the_data_directory_is_closed_to_others(root: Path, tmp_path: Path, before: int | None, after: int) -> None:
    data = tmp_path / "data"
    if before is not None:
        data.mkdir()
        data.chmod(before)
    environment = os.environ | {"WORKBENCH_DATA": str(data), "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", ASK], env=environment, check=True, umask=0o022)
    assert data.stat().st_mode & 0o7777 == after
    assert (data / "secret_key").stat().st_mode & 0o777 == 0o600


def test_no_gunicorn_opens_a_control_socket(root: Path) -> None:
    """The socket of all gunicorns of a user lies at one address; who reaches it commands them."""
    for place in ("Dockerfile", "workbench/embedded/stack.py"):
        assert "--no-control-socket" in (root / place).read_text()
