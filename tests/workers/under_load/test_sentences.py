"""What a load stage found, in words."""

from tests import sample_loads
from workers.under_load.sentences import whole_sentence


def test_the_sentence_names_vllm_where_it_is_before():
    found = sample_loads.under_load()
    server = found.before.server.model_copy(update={"kind": "vllm", "label": "vLLM 0.22.1"})
    before = found.before.model_copy(update={"server": server})
    assert whole_sentence(before, found.after).startswith(
        "Before (vLLM 0.22.1): no load is shown to hold every objective; after: every objective holds with 20 users"
    )
    assert whole_sentence(found.before, None).startswith("Before: no load is shown")
