"""What a load stage found, in words."""

from tests import sample_loads
from workers.charts import under_load
from workers.traffic.searching import OUT_OF_TIME
from workers.under_load.sentences import curve_of, whole_sentence


def test_the_sentence_names_vllm_where_it_is_before():
    found = sample_loads.under_load()
    server = found.before.server.model_copy(update={"kind": "vllm", "label": "vLLM 0.22.1"})
    before = found.before.model_copy(update={"server": server})
    assert whole_sentence(before, found.after).startswith(
        "Before (vLLM 0.22.1): no load is shown to hold every objective; after: every objective holds with 20 users"
    )
    assert whole_sentence(found.before, None).startswith("Before: no load is shown")
    assert whole_sentence(found.before, None, recommended=False).startswith("Today: no load is shown")


def test_a_limit_under_load_that_nobody_stated_says_where_it_comes_from():
    found = sample_loads.results()
    asked = found.load.objectives
    assert under_load.promises(found, asked) == [("TTF64 p50", "≤ 100 ms", "stated")]
    relative = [each.model_copy(update={"limit": None, "at_least_faster": 1.5}) for each in asked]
    said = "≤ 100 ms, from the median that verify measured before"
    assert under_load.promises(found, relative) == [("TTF64 p50", said, "measured")]


def test_a_higher_load_may_hold_only_where_one_does():
    found = sample_loads.under_load()
    early = [
        curve_of(each.server, each.limit.model_copy(update={"unfinished": OUT_OF_TIME})).sentence
        for each in (found.before, found.after)
    ]
    assert early[0].endswith(OUT_OF_TIME)
    assert early[1].endswith(f"{OUT_OF_TIME} A higher load may hold as well.")
