"""Where the time of a request goes, as a chart."""

from tests.sample_results import results
from workers.charts import time_spent


def test_a_phase_has_one_colour_in_every_run():
    document = results()
    rows = document.profile.rows
    document.profile.rows = [each for each in rows if each.phase == "prefill"]
    alone = colours(document)
    document.profile.rows = rows
    shown = colours(document)
    assert len({*shown.values()}) == len(shown) > len(alone) > 1
    assert alone.items() <= shown.items()


def colours(document):
    """The colour of each entry of the legend."""
    return {each["name"]: each["marker"]["color"] for each in time_spent.figure(document)["data"]}
