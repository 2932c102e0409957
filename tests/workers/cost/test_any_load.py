"""The price at each load, whatever the promise: same load, no slower, and where each side gave the most tokens."""

import pytest

from tests import sample_loads
from tests.sample_results import manifest
from workers.charts import economics
from workers.cost import any_load
from workers.documents.stages import Results


def found_of(results: Results):
    found = any_load.of_results(results, sample_loads.workload(), manifest())
    assert found
    return found


def test_a_promise_that_before_misses_at_every_load_leaves_a_price_at_each():
    results = sample_loads.results()
    assert results.price.lines[0].usd_per_mtok is None, "no load of before holds"
    said = (
        "Whatever the promise: at 4 requests at once a million output tokens costs 1.28 USD before and 0.316 USD after."
    )
    assert results.price.sentence.endswith(said)
    found = found_of(results)
    assert found == results.price.any_load
    assert [row.before.level for row in found.rows] == [1, 2, 4]
    for row in found.rows:
        assert row.same.level == row.before.level
        cost = 4.18 / (row.before.per_second.value * 3600) * 1e6
        assert row.before.usd_per_mtok.value == pytest.approx(cost)
        assert row.no_slower.value <= row.before.value
        assert row.before.holds is False
    assert (found.most_before.level, found.most_after.level) == (4, 22), "24 users are void"
    assert found.sentence.startswith("At 4 requests at once a million output tokens costs ")
    assert (
        "No slower than before at 4 requests at once, after costs 0.0831 USD at 22 requests at once" in found.sentence
    )
    assert found.sentence.endswith("Before was not measured at more, where a token may cost less.")


def test_no_slower_load_is_none_where_after_is_slower_or_the_promise_is_no_time():
    results = sample_loads.results()
    load = results.load
    swapped = load.model_copy(update={"before": load.after, "after": load.before})
    price = results.price.model_copy(update={"any_load": None})
    found = found_of(results.model_copy(update={"load": swapped, "price": price}))
    assert found.rows[0].no_slower is None
    assert found.rows[-1].same is None
    first = economics.any_load_rows(found)[0][1]
    assert (first[2].price, first[2].detail) == ("–", "no such load")


def test_without_a_curve_of_both_sides_there_is_none():
    results = sample_loads.results()
    alone = results.load.model_copy(update={"before": None})
    price = results.price.model_copy(update={"any_load": None})
    asked = sample_loads.workload(), manifest()
    assert any_load.of_results(results.model_copy(update={"load": alone, "price": price}), *asked) is None
