"""Write clients/openapi.json and the Python client that is generated from it: `make client`.

The document is committed, the client is not. The generator is openapi-python-client, pinned among the packages of
development. Tests compare the document with the committed one and generate a client of their own from that.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "clients" / "openapi.json"
SETTINGS = ROOT / "clients" / "generator.yml"
PACKAGE = ROOT / "clients" / "python" / "kernel_workbench_client"


class NotGenerated(Exception):
    """The generator could not express a part of the document; its own words."""


def document() -> str:
    """The OpenAPI document of the REST API as it is committed. Django is set up."""
    from workbench.api_v1 import api

    return json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), indent=2, ensure_ascii=False) + "\n"


def generate(source: Path, package: Path) -> None:
    """Generate the client of the document `source` into the new folder `package`. Raises NotGenerated on a warning."""
    tools = Path(sys.executable).parent
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    command += ["--path", str(source), "--config", str(SETTINGS), "--output-path", str(package)]
    paths = os.pathsep.join([str(tools), os.environ.get("PATH", "")])  # the generator calls ruff
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": paths}, check=False)
    if done.returncode:
        raise NotGenerated(done.stdout + done.stderr)


def main() -> None:
    """Refresh both in the checkout."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "workbench.settings")
    django.setup()
    DOCUMENT.write_text(document(), "utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / PACKAGE.name
        generate(DOCUMENT, made)
        shutil.rmtree(PACKAGE, ignore_errors=True)
        shutil.copytree(made, PACKAGE, ignore=shutil.ignore_patterns(".ruff_cache", "__pycache__"))
    print(f"Wrote {DOCUMENT.relative_to(ROOT)} and {PACKAGE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
