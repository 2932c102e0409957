"""A disk that is full: everything says so and deletion works, and the launcher goes on once there is space."""

from tests.workbench.small_disk import run_on_small_disk


def test_a_full_disk_is_a_507_that_can_be_read_deletion_works_and_the_launcher_outlives_it(tmp_path):
    """The disk less the reserve, the room for deletions and the database holds three uploads, not six. Redis ends
    meanwhile more often than the launcher takes on a disk that has space.
    """
    outcome = run_on_small_disk("tests.workbench.full_disk_scenario", tmp_path / "data", mebibytes=96)
    assert (outcome["announced"], outcome["received"]) == ([201, 201, 201, 507, 507, 507], 200)
    assert outcome["patch"] == outcome["post"] == outcome["announce"] == [507, "application/problem+json"]
    assert (outcome["login"], outcome["page"]) == ([507, "text/html"], [200, "text/html"])
    assert outcome["read"] == [200, "application/json"]
    assert (outcome["delete"], outcome["left"], outcome["freed"]) == ([204, 204, 204], 0, True)
    assert (outcome["gave_up"], outcome["login_page"]) == ([], [200, "text/html"])
    assert (outcome["running"], outcome["beat"], outcome["afterwards"]) == (True, True, 201)
