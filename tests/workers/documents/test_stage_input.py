"""Inputs of stages from before a field had its present form."""

from typing import Any

import pytest
import sample_results

from workers.documents.stages import StageInput

profile = sample_results.results().profile
assert profile is not None
CEILINGS = profile.ceilings


@pytest.mark.parametrize(
    ("gpu_class", "given", "read"),
    [
        ("h200", None, {}),
        ("h200x4", CEILINGS.model_dump(), {"h200": CEILINGS}),
        ("h200x4", {"h100": CEILINGS.model_dump()}, {"h100": CEILINGS}),
    ],
)
def test_ceilings_of_one_class_alone_are_read(gpu_class: str, given: Any, read: dict[str, Any]) -> None:
    document = sample_results.stage_input("admit").model_dump() | {"gpu_class": gpu_class, "ceilings": given}
    assert StageInput.model_validate(document).ceilings == read
