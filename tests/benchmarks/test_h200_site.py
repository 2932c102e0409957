"""What benchmarks/h200/use-site.sh makes of a GPU machine that nobody prepared."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "h200" / "use-site.sh"


def test_the_site_and_the_machines_own_packages_get_bytecode_that_stages_find(tmp_path: Path) -> None:
    """A Python that only notes what it is to compile stands for the machine's; it says where modules are found."""
    own, log, python = tmp_path / "own", tmp_path / "calls.txt", tmp_path / "bin" / "python3"
    for folder in (tmp_path / "site", own, python.parent):
        folder.mkdir()
    subprocess.run(["tar", "-C", tmp_path, "-cJf", tmp_path / "site.tar.xz", "site"], check=True, timeout=60)
    python.write_text(f"""#!/bin/sh
case "$*" in
    *compileall*) echo "$PYTHONPYCACHEPREFIX $@" >> {log} ;;
    *sys.executable*) echo {python} ;;
    *sys.path*) echo {own} ;;
esac
""")
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "BYTECODE": str(tmp_path / "made")}
    environment |= {"SITE": str(tmp_path / "site.tar.xz"), "SITE_FOLDER": str(tmp_path / "there")}
    script = f'set -euo pipefail; . {SCRIPT}; echo "$PYTHONPYCACHEPREFIX $PYTHONPATH"'
    for _ in range(2):  # the second time it is there
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.startswith(f"{tmp_path / 'made'} {tmp_path / 'there'}")
    (call,) = log.read_text().splitlines()
    assert call.split()[0] == str(tmp_path / "made")
    assert {str(tmp_path / "there"), str(own), "kernels", "workers"} <= set(call.split())
