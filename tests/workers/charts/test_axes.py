"""The ticks of logarithmic axes, on the page and in the report."""

import pytest
from sample_loads import results

from workers.charts import under_load
from workers.charts.base import doubling_axis, log_axis
from workers.charts.svg import draw


@pytest.mark.parametrize(
    ("values", "among"), [([0.03, 0.3], "0.05"), ([0.3, 8.0], "0.5"), ([0.02, 900.0], "0.1"), ([2.0, 5000.0], "1,000")]
)
def test_a_logarithmic_axis_writes_its_ticks_out(values, among):
    axis = log_axis(values)
    assert among in axis["ticktext"]
    assert min(axis["tickvals"]) < values[0] < values[1] < max(axis["tickvals"])


def test_numbers_of_users_have_ticks_where_a_search_doubles_them():
    axis = doubling_axis([1.0, 20.0, 64.0])
    assert axis["ticktext"] == ["1", "2", "4", "8", "16", "32", "64"]
    assert doubling_axis([1.0, 1024.0])["ticktext"] == ["1", "4", "16", "64", "256", "1,024"]
    figure = under_load.figure(results())
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "4", "8", "16", "32"]
    drawn = draw(figure, "Throughput under load")
    assert all(f">{users}</text>" in drawn for users in (1, 2, 4, 8, 16, 32))
    assert ">5</text>" not in drawn
