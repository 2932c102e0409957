"""The ticks of logarithmic axes, on the page and in the report."""

from sample_loads import results

from workers.charts import under_load
from workers.charts.base import doubling_axis
from workers.charts.svg import draw


def test_numbers_of_users_have_ticks_where_a_search_doubles_them():
    axis = doubling_axis([1.0, 20.0, 64.0])
    assert axis["ticktext"] == ["1", "2", "4", "8", "16", "32", "64"]
    assert doubling_axis([1.0, 1024.0])["ticktext"] == ["1", "4", "16", "64", "256", "1,024"]
    figure = under_load.figure(results())
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "4", "8", "16", "32"]
    drawn = draw(figure, "Throughput under load")
    assert all(f">{users}</text>" in drawn for users in (1, 2, 4, 8, 16, 32))
    assert ">5</text>" not in drawn
