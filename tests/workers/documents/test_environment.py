"""What a worker says of the machine that it measured on."""

import pytest

from workers.documents.measurement import Environment


@pytest.mark.parametrize("at", ["someday", "2026-11-20", "2026-11-20T00:00:00"])
def test_a_time_that_no_page_could_show_is_refused(at: str) -> None:
    with pytest.raises(ValueError, match="at\n"):
        Environment(device="CPU", gpu_class="cpu", versions={}, at=at)
