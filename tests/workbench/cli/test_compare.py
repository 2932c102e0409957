"""`workbench compare`, names in `workbench runs`, and ids by their beginning."""

import pytest

from tests import sample_runs

pytestmark = pytest.mark.django_db(transaction=True)


def test_compare_prints_what_the_page_shows(cli, organisation, engineer):
    first, second = (sample_runs.run(organisation, engineer) for _ in range(2))
    done = cli("compare", str(first.id)[:8], second.id)
    assert done.exit_code == 0, done.stderr
    for title in (
        "Objectives",
        "TTF64",
        "TPOT",
        "Speedup over its own before",
        "Operations",
        "Plans",
        "Where it was measured",
        "Cost",
    ):
        assert title in done.stdout
    assert f"A: {first.workload.name}" in done.stdout


def test_compare_wants_two_runs(cli, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    done = cli("compare", run.id)
    assert done.exit_code == 2
    assert "two to 6 runs" in done.stderr


def test_runs_are_named_by_workload_and_model(cli, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    listed = cli("runs").stdout
    assert run.workload.name[:10] in listed
    assert run.workload.model.name in listed
    assert str(run.id)[:8] in listed


@pytest.mark.parametrize(
    ("given", "sentence"),
    [("0123", "0123: there is no such run"), ("../runs", "../runs: this is no run's id"), ("last", "last: this is no")],
)
def test_an_id_that_no_run_has(cli, organisation, given, sentence):
    done = cli("show", given)
    assert done.exit_code == 2
    assert sentence in done.stderr
