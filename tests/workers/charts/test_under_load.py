"""What the pages say of single loads."""

from tests import sample_loads
from workers.charts import under_load


def test_the_only_side_is_today_where_no_change_is_recommended():
    results = sample_loads.results()
    assert [name for name, _, _ in under_load.sides(results)] == ["Before", "After"]
    results.verify.recommended, results.load.after = False, None
    assert [name for name, _, _ in under_load.sides(results)] == ["Today"]
