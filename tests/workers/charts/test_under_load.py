"""What the pages say of single loads."""

from tests import sample_loads
from workers.charts import under_load


def test_notes_that_differ_in_figures_alone_are_one():
    results = sample_loads.results()
    loads = results.load.after.limit.loads[:2]
    for at, load in enumerate(loads):
        load.notes[:] = [f"{at + 1},024 answers had several tokens in one event."]
    results.load.before.limit.loads[0].notes[:] = ["The server counts no tokens."]
    low, high = (each.users for each in loads)
    found = under_load.load_notes(results)
    first = results.load.before.limit.loads[0].users
    assert found[0] == f"Before at {first} users at once: The server counts no tokens."
    assert (
        f"After at {low} and {high} users at once, with figures of {high}: "
        "2,024 answers had several tokens in one event." in found
    )


def test_the_only_side_is_today_where_no_change_is_recommended():
    results = sample_loads.results()
    assert [name for name, _, _ in under_load.sides(results)] == ["Before", "After"]
    results.verify.recommended, results.load.after = False, None
    assert [name for name, _, _ in under_load.sides(results)] == ["Today"]
