"""A disk that is full: uploads stop before it, everything says so, and deletion works. On a tmpfs of 64 MiB."""

from tests.workbench.small_disk import run_on_small_disk


def test_a_full_disk_is_a_507_that_can_be_read_and_deletion_works(tmp_path):
    """64 MiB less the reserve, the room for deletions and the database hold three uploads of 10 MiB, not six."""
    outcome = run_on_small_disk("tests.workbench.intake.full_disk_scenario", tmp_path)
    assert (outcome["announced"], outcome["received"]) == ([201, 201, 201, 507, 507, 507], 200)
    assert outcome["patch"] == outcome["post"] == outcome["announce"] == [507, "application/problem+json"]
    assert (outcome["login"], outcome["page"]) == ([507, "text/html"], [200, "text/html"])
    assert outcome["read"] == [200, "application/json"]
    assert (outcome["delete"], outcome["left"], outcome["freed"]) == ([204, 204, 204], 0, True)
    assert outcome["afterwards"] == 201
