"""The committed OpenAPI document and client are those of the API as it is."""

import json
from pathlib import Path

from scripts import make_client

REFRESH = "Refresh it with `make client` and commit what it writes."


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.py")}


def test_the_openapi_document_is_of_today():
    assert make_client.DOCUMENT.read_text("utf-8") == make_client.document(), REFRESH


def test_the_client_is_generated_from_it(tmp_path):
    made = tmp_path / make_client.PACKAGE.name
    make_client.generate(make_client.DOCUMENT, made)
    assert _files(make_client.PACKAGE) == _files(made), REFRESH


def test_the_document_is_for_customers():
    paths = json.loads(make_client.document())["paths"]
    assert len(paths) > 20
    assert not [path for path in paths if "/worker" in path], "what workers call has a site of its own"
