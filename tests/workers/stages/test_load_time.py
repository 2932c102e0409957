"""How the load stage shares its time between before and after."""

import pytest

from tests import sample_results
from tests.workers.conftest import stage_input
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.loadtest.servers import judging
from workers.stages import load


@pytest.mark.parametrize(("recommended", "share"), [(True, 1 - load.SHARE_OF_AFTER), (False, 1.0)])
def test_what_before_leaves_of_its_time_is_that_of_after(tmp_path, monkeypatch, recommended, share):
    left, given = [100.0], {}
    monkeypatch.setattr(Context, "seconds_left", property(lambda self: left[0]))

    def before(document, sides, starting, until):
        given["before"] = left[0] - until
        left[0] -= 8

    def after(verify, sides, until, notes, in_vllm):
        given["after"] = left[0] - until
        return None, ""

    monkeypatch.setattr(load, "_before", before)
    monkeypatch.setattr(load, "_after", after)
    verify = sample_results.verify().model_copy(update={"recommended": recommended})
    document = stage_input("load", results=Results(verify=verify), load={"most_users": 4})
    load.run(document, Context(tmp_path, tmp_path, seconds=1))
    searching = 100 * (1 - judging.SHARE)
    assert list(given.items()) == [
        ("before", pytest.approx(searching * share)),
        ("after", pytest.approx(searching - 8)),
    ]
