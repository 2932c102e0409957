"""Fresh processes are forked from one that has imported everything, and end with it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_for

ROOT = Path(__file__).parents[3]
MODULE = """
import os, sys, time
from pathlib import Path
kind, folder = sys.argv[1], Path(sys.argv[2])
(folder / kind).write_text(f"{os.getpid()} {'email.mime.text' in sys.modules} {__name__}")
if kind.startswith("hangs"):
    time.sleep(600)
sys.exit({"fails": 7}.get(kind, 0))
"""
PARENT = """
import subprocess, sys, email.mime.text
from pathlib import Path
from workers.harness import fresh_processes
folder = sys.argv[1]
fresh_processes.prepare()
codes = [fresh_processes.run("given", [kind, folder], 300) for kind in ("works", "fails", "again")]
try:
    fresh_processes.run("given", ["hangs", folder], 10)
except subprocess.TimeoutExpired:
    codes.append("too long")
codes.append(fresh_processes.run("given", ["after", folder], 300))
Path(folder, "codes").write_text(repr(codes))
fresh_processes.run("given", ["hangs at the end", folder], 600)
"""


def test_they_are_forked_one_after_another_and_one_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(MODULE)
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=env)
    try:
        wait_for((tmp_path / "codes").exists, 300, "the fresh processes", processes={"parent": parent})
        assert (tmp_path / "codes").read_text() == "[0, 7, 0, 'too long', 0]"
        said = [(tmp_path / name).read_text().split() for name in ("works", "fails", "again", "hangs", "after")]
        assert {tuple(each[1:]) for each in said} == {("True", "__main__")}
        assert len({each[0] for each in said}) == 5
        wait_for(lambda: (tmp_path / "hangs at the end").exists(), 120, "the last one")
        last = wait_for((tmp_path / "hangs at the end").read_text, 120, "the id of the last one").split()[0]
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not _runs(int(last)), 120, "the end of the last one")


def _runs(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
