"""Two runs held against each other over the REST API."""

import pytest

from tests import sample_runs

pytestmark = pytest.mark.django_db
MISSING = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def compared(api, organisation, engineer):
    """`compared(by, count, query)`: the answer for a run `by` times as slow as a kept one in `count` processes."""

    def ask(by=1.0, count=5, query="kept_id={kept}"):
        kept, new = (sample_runs.run(organisation, engineer) for _ in range(2))
        sample_runs.in_processes(kept)
        sample_runs.in_processes(new, count, by)
        answer = api(engineer).get(f"/api/v1/runs/{new.id}/comparison?" + query.format(kept=kept.id, new=new.id))
        return answer.status_code, answer.json()

    return ask


@pytest.mark.parametrize(
    ("by", "percent", "regressed"), [(1.05, 3, True), (1.05, 10, False), (1.0, 3, False), (0.9, 3, False)]
)
def test_a_run_is_worse_beyond_what_was_asked(compared, by, percent, regressed):
    status, found = compared(by, query=f"kept_id={{kept}}&percent={percent}")
    assert (status, found["regressed"]) == (200, regressed)
    ratio = found["ratios"]["TTF64"]
    assert ratio["value"] == pytest.approx(by)
    assert ratio["low"] < by < ratio["high"]
    words = f"is {'worse' if regressed else 'not shown to be worse'} than run {found['kept'][:8]} of "
    assert words in found["sentence"]
    assert found["sentence"].startswith(f"run {found['run'][:8]} of ")


@pytest.mark.parametrize(
    ("count", "query", "status", "said"),
    [
        (3, "kept_id={kept}", 409, "A regression cannot be judged: it takes 4 to 6 processes of verify, not 3"),
        (5, "kept_id={new}", 422, "kept_id: names the same run; give a kept one"),
        (5, "kept_id={kept}&percent=0", 422, "percent: should be greater than 0, not '0'"),
        (5, "percent=3", 422, "kept_id: is required"),
        (5, "against={kept}", 422, "against: is no parameter here; this address takes kept_id, percent"),
        (5, f"kept_id={MISSING}", 404, "No such run in this organisation."),
    ],
)
def test_what_cannot_be_compared_is_said(compared, count, query, status, said):
    found = compared(count=count, query=query)
    assert (found[0], found[1]["detail"].startswith(said)) == (status, True), found


def test_a_foreign_kept_run_is_not_found(api, organisation, engineer, foreigner):
    own = sample_runs.in_processes(sample_runs.run(foreigner.memberships.get().organisation, foreigner))
    kept = sample_runs.in_processes(sample_runs.run(organisation, engineer))
    assert api(foreigner).get(f"/api/v1/runs/{own.id}/comparison?kept_id={kept.id}").status_code == 404
