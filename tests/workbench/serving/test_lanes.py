"""Requests of one organisation wait for their turn in a lane, as many as the lane keeps."""

from types import SimpleNamespace

import pytest

from workbench.serving import lanes

MAX_ACTIVE = 2


@pytest.fixture
def lane(monkeypatch):
    """A lane without threads: `began` has the turns that a thread would have taken."""
    monkeypatch.setattr(lanes, "MAX_WAITING", 3)
    monkeypatch.setattr(lanes, "_organisations", {lanes.credential("Bearer a", ""): "ours"})
    made = lanes.Lane(threads=0, max_active=MAX_ACTIVE)
    made.began = []
    monkeypatch.setattr(made._threads, "add_task", made.began.append)
    return made


def asked(lane, count):
    for _ in range(count):
        lane.add(SimpleNamespace(requests=[SimpleNamespace(headers={"AUTHORIZATION": "Bearer a"})]))


def test_more_than_may_wait_are_let_through_to_be_refused_and_begin_no_request_that_waits(lane):
    asked(lane, MAX_ACTIVE + 3)
    assert len(lane.began) == MAX_ACTIVE
    asked(lane, 1)
    assert len(lane.began) == MAX_ACTIVE + 1
    lane.done("ours")
    assert len(lane.began) == MAX_ACTIVE + 1, "as many as may be are still under way: it begins none that waits"
    for waiting in (1, 2, 3):
        lane.done("ours")
        assert len(lane.began) == MAX_ACTIVE + 1 + waiting
    lane.done("ours")
    lane.done("ours")
    assert not lane._under_way
    assert not lane._waiting
