"""The price at each load, whatever the promise: same load, no slower, and where each side gave the most tokens."""

import pytest

from tests import sample_loads
from tests.sample_results import manifest
from workers.charts import economics
from workers.cost import loads
from workers.documents.stages import Results


def prices_of(results: Results):
    return loads.of_results(results, sample_loads.workload(), manifest())


def test_a_promise_that_before_misses_at_every_load_leaves_a_price_at_each():
    results = sample_loads.results()
    assert results.price.lines[0].usd_per_mtok is None, "no load of before holds"
    assert "at 4 requests at once: $0.316 instead of $1.28" in results.price.sentence
    prices = prices_of(results)
    assert prices == results.price.any_load
    assert [row.before.level for row in prices.rows] == [1, 2, 4]
    for row in prices.rows:
        assert row.same.level == row.before.level
        cost = 4.18 / (row.before.per_second.value * 3600) * 1e6
        assert row.before.usd_per_mtok.value == pytest.approx(cost)
        assert row.no_slower.value <= row.before.value
        assert row.before.holds is False
    assert (prices.most_before.level, prices.most_after.level) == (4, 22), "24 users are void"
    same = results.price.same_load
    assert (same.usd_before, same.usd_after) == (prices.rows[-1].before.usd_per_mtok, prices.rows[-1].same.usd_per_mtok)
    assert "after costs $0.0831 at 22 requests at once" in prices.sentence


def test_no_slower_load_is_none_where_after_is_slower_and_there_are_none_without_a_curve_of_both_sides():
    results = sample_loads.results()
    load = results.load
    swapped = load.model_copy(update={"before": load.after, "after": load.before})
    price = results.price.model_copy(update={"any_load": None})
    prices = prices_of(results.model_copy(update={"load": swapped, "price": price}))
    assert prices.rows[0].no_slower is None
    assert prices.rows[-1].same is None
    first = economics.any_load_rows(prices)[0][1]
    assert (first[2].price, first[2].detail) == ("–", "no such load")
    alone = results.load.model_copy(update={"before": None})
    asked = sample_loads.workload(), manifest()
    assert loads.of_results(results.model_copy(update={"load": alone, "price": price}), *asked) is None
