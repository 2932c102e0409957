"""`make up` on a disk that fills up: it does not give up, and goes on by itself once there is space."""

from tests.workbench.small_disk import run_on_small_disk


def test_the_launcher_outlives_a_full_disk(tmp_path):
    """Redis ends meanwhile more often than the launcher takes on a disk that has space."""
    found = run_on_small_disk("tests.workbench.embedded.full_disk_scenario", tmp_path / "data", mebibytes=96)
    assert found == {"gave_up": [], "page": True, "running": True, "beat": True}
