"""A message that names no stage of a run is dropped by the ledger as well."""

import pytest

from workbench.runs.tasks import run_stage


@pytest.mark.parametrize("message", [("x", "price", 1), (7, "price", 1), ("", "nonesuch", 0)])
def test_a_message_that_names_nothing_is_dropped(message) -> None:
    assert run_stage.apply(args=message).successful()
