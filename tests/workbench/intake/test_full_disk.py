"""A disk that is full: uploads stop before it, everything says so, and deletion works. On a tmpfs of 64 MiB."""

from typing import Any

import pytest

from tests.workbench.small_disk import run_on_small_disk

PROBLEM = [507, "application/problem+json"]
PAGE = [507, "text/html"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the web process answered."""
    return run_on_small_disk("tests.workbench.intake.full_disk_scenario", tmp_path_factory.mktemp("small"))


def test_announced_bytes_count_against_the_free_space(found: dict[str, Any]) -> None:
    """64 MiB less the reserve, the room for deletions and the database hold three uploads of 10 MiB, not six."""
    assert found["announced"] == [201, 201, 201, 507, 507, 507]
    assert found["received"] == 200


def test_a_full_disk_is_a_507_and_can_be_read(found: dict[str, Any]) -> None:
    assert found["patch"] == found["post"] == found["announce"] == PROBLEM
    assert found["login"] == PAGE
    assert found["page"] == [200, "text/html"]
    assert found["read"] == [200, "application/json"]


def test_deletion_works_on_a_full_disk(found: dict[str, Any]) -> None:
    assert found["delete"] == [204, 204, 204]
    assert found["left"] == 0
    assert found["freed"]
    assert found["afterwards"] == 201
