"""Scratch directories: gone when done, and when their process was killed, gone with the next one."""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.shared.scratch import scratch


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path: Path) -> None:
    code = (
        "import os\nfrom pathlib import Path\nfrom workers.shared.scratch import scratch\n"
        f"with scratch(Path({str(tmp_path)!r})) as d:\n  (d / 'file').touch(); os.kill(os.getpid(), 9)"
    )
    with scratch(tmp_path) as mine:
        subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
        assert len(list(tmp_path.iterdir())) == 2
        with scratch(tmp_path) as other:
            assert set(tmp_path.iterdir()) == {mine, other}
            (other / "file").touch()
    assert not list(tmp_path.iterdir())


def test_a_fork_that_ends_leaves_it_to_its_maker(tmp_path: Path) -> None:
    """As gunicorn's processes share what their first one made."""
    code = (
        "import os, sys\nfrom contextlib import ExitStack\nfrom pathlib import Path\n"
        "from workers.shared.scratch import scratch\n"
        f"kept = ExitStack()\nd = kept.enter_context(scratch(Path({str(tmp_path)!r})))\n"
        "if not os.fork():\n  sys.exit()\n"
        "os.wait()\nprint(d.exists())"
    )
    text = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parents[3], text=True)
    assert text == "True\n"
    assert not list(tmp_path.iterdir())


def test_what_a_link_leads_to_is_left_alone_and_a_directory_of_everybodys_is_refused(tmp_path: Path) -> None:
    """A user who puts a link there would choose the folder that a worker of root empties."""
    foreign, root = tmp_path / "foreign", tmp_path / "stages"
    (foreign / "kept").mkdir(parents=True)
    root.symlink_to(foreign)
    with pytest.raises(PermissionError, match="stages is a link"), scratch(root):
        pass
    assert (foreign / "kept").exists()
    root = tmp_path / "open"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(PermissionError, match="others may write there"), scratch(root):
        pass
