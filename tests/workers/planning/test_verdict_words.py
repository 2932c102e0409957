"""What is promised, and what was found of it, in words."""

import pytest

from workers.documents.workload import Objective
from workers.wording.text import promised


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ({"metric": "ttft", "limit": 100}, "≤ 100 ms"),
        ({"metric": "throughput", "limit": 1000}, "≥ 1,000 tokens/s"),
        ({"metric": "ttf_n", "n": 64, "at_least_faster": 1.5}, "≥ 1.5x faster"),
        ({"metric": "throughput", "at_least_faster": 2}, "≥ 2x as much"),
    ],
)
def test_a_promise_in_words(objective, words):
    assert promised(Objective.model_validate(objective)) == words
