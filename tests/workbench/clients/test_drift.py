"""The committed OpenAPI document is that of the API as it is."""

import json

from scripts import make_client


def test_the_openapi_document_is_of_today():
    assert make_client.DOCUMENT.read_text("utf-8") == make_client.document(), "run `make client`"


def test_the_document_is_for_customers():
    paths = json.loads(make_client.document())["paths"]
    assert len(paths) > 20
    assert not [path for path in paths if "/worker" in path], "what workers call has a site of its own"
