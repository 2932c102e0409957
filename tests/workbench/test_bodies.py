"""Bodies are limited before anything parses them; what large ones take is tried on the process of test_busy_site."""

import pytest
from django.test import Client

MIB = 2**20


def test_a_body_without_a_length_or_too_long_is_refused_by_a_page_or_a_problem(client):
    """As another server than ours would pass it on."""
    answer = client.post("/api/v1/workloads", headers={"Transfer-Encoding": "chunked", "Content-Length": ""})
    assert answer.status_code == 411
    page = client.generic("POST", "/login/", b"x" * MIB)
    assert (page.status_code, page.headers["Content-Type"]) == (413, "text/html; charset=utf-8")
    assert "at most 65,536 are taken here" in page.content.decode()
    problem = client.generic("POST", "/api/v1/workloads", b"x" * MIB)
    assert problem.headers["Content-Type"] == "application/problem+json"
    assert problem.json()["detail"] == "The body has 1,048,576 bytes; at most 65,536 are taken here."


def _post(client: Client, method: str, path: str, length: int) -> int:
    """The status of a request that says that its body has so many bytes."""
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    return client.generic(method, path, b"x" * length, content_type=kind).status_code


LIMITS = [
    ("nobody", "POST", "/login/", 64 * 1024),
    ("nobody", "POST", "/workloads/new/", 64 * 1024),
    ("nobody", "POST", "/api/v1/workloads", 64 * 1024),
    ("nobody", "POST", "/api/v1/worker/result", 64 * 1024),
    ("nobody", "PATCH", "/api/v1/uploads/1/files/1", 64 * 1024),
    ("member", "POST", "/workloads/new/", MIB),
    ("token", "POST", "/api/v1/workloads", MIB),
    ("token", "POST", "/api/v1/uploads", 4 * MIB),
]


@pytest.mark.parametrize(("who", "method", "path", "limit"), LIMITS)
def test_each_address_has_its_limit(browser, api, engineer, who, method, path, limit):
    client = {"nobody": Client, "member": lambda: browser(engineer), "token": lambda: api(engineer)}[who]()
    assert _post(client, method, path, limit + 1) == 413
    assert _post(client, method, path, limit) != 413
