"""Figures as people read them."""

from workers.wording.text import moment, points


def test_a_time_names_its_zone():
    assert moment("2026-11-23T20:38:51+00:00") == moment("2026-11-23T20:38:51Z") == "2026-11-23 20:38:51 UTC"


def test_a_difference_of_shares_is_in_points():
    assert points(-0.02415, 3) == "-2.415 points"
    assert points(None) == "–"
