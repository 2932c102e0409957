"""The installed command itself."""

import subprocess
import sys
from pathlib import Path


def test_it_starts_without_django_or_torch():
    code = (
        "import sys, workbench.cli.commands\n"
        "found = {name.split('.')[0] for name in sys.modules} & {'django', 'ninja', 'torch', 'celery'}\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_serve_needs_only_what_the_servers_extra_installs():
    """pip install '.[serve]' brings none of the packages of the other commands."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'httpx', 'yaml', 'django', 'celery']))\n"
        "sys.argv[1:] = ['serve', '--help']; from workbench.cli import app; app()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--kv-gib" in done.stdout


def test_the_script_explains_itself():
    script = Path(sys.executable).with_name("workbench")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for command in ("submit", "runs", "show", "report", "plan", "models", "tokens", "up"):
        assert command in done.stdout
    assert subprocess.run([script, "submit"], capture_output=True, check=False).returncode == 2
