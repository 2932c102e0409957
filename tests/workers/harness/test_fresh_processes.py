"""Fresh processes are forked from one that has imported everything, wait for their turn, and end with it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import alive, wait_for

ROOT = Path(__file__).parents[3]
MODULE = """
import os, sys, time
from pathlib import Path
from kernels.measure.other_programs import is_other
from workers.harness.fresh_processes import wait_for_turn
kind, folder = sys.argv[1], Path(sys.argv[2])
if kind.startswith("waits"):
    wait_for_turn()
    sys.exit(11 if is_other(int(sys.argv[3])) else 10)
(folder / kind).write_text(f"{os.getpid()} {'email.mime.text' in sys.modules} {__name__}")
if kind.startswith("hangs"):
    time.sleep(600)
sys.exit({"fails": 7}.get(kind, 0))
"""
PARENT = """
import socket, subprocess, sys, email.mime.text
from pathlib import Path
from workers.harness import fresh_processes
from workers.harness.fresh_processes import FreshProcess
folder = sys.argv[1]
fresh_processes.prepare()
codes = [FreshProcess("given", [kind, folder]).run(300) for kind in ("works", "fails", "again")]
try:
    FreshProcess("given", ["hangs", folder]).run(10)
except subprocess.TimeoutExpired:
    codes.append("too long")
codes.append(FreshProcess("given", ["after", folder]).run(300))
other = str(FreshProcess("given", ["waits beside", folder])._pid)
waiting = [FreshProcess("given", ["waits", folder, other]) for _ in range(3)]
assert all(process.is_ready(300) for process in waiting)
waiting.pop().close()
codes += [process.run(300) for process in waiting]
ended = FreshProcess("given", ["ends", folder])
codes += [ended.is_ready(300), ended.run(300)]
link, fresh_processes._link = fresh_processes._link, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)[0]
codes.append(FreshProcess("given", ["none", folder]).run(300))
fresh_processes._link = link
Path(folder, "codes").write_text(repr(codes))
FreshProcess("given", ["hangs at the end", folder]).run(600)
"""


def test_they_are_forked_and_wait_for_their_turn_and_one_that_hangs_is_killed(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text(MODULE)
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=env)
    try:
        wait_for((tmp_path / "codes").exists, 300, "the fresh processes", processes={"parent": parent})
        assert (tmp_path / "codes").read_text() == "[0, 7, 0, 'too long', 0, 10, 10, False, 0, -9]"
        text = [(tmp_path / name).read_text().split() for name in ("works", "fails", "again", "hangs", "after")]
        assert {tuple(item[1:]) for item in text} == {("True", "__main__")}
        assert len({item[0] for item in text}) == 5
        wait_for(lambda: (tmp_path / "hangs at the end").exists(), 120, "the last one")
        last = wait_for((tmp_path / "hangs at the end").read_text, 120, "the id of the last one").split()[0]
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not alive(int(last)), 120, "the end of the last one")
