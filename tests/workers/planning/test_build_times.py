"""How long builds took before, kept from one run to the next."""

import pytest

from tests.workers.conftest import stage_input
from workers.planning.build_times import BuildTimes


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "cache"))


def test_build_times_are_remembered():
    builds = BuildTimes(stage_input("compose"))
    assert builds.expect("compiled", 60) == 30
    builds.note("compiled", 7.04)
    assert builds.expect("compiled", 60) == 7.0
    assert builds.expect("compiled_tuned", 120) == 60
    builds._path.write_text("broken")
    assert builds.expect("compiled", 60) == 30
