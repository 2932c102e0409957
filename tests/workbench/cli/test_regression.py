"""`workbench show --against … --fail-on-regression …`: exit codes and sentences."""

import pytest

from tests import sample_runs

pytestmark = pytest.mark.django_db(transaction=True)


def finished(organisation, engineer, by: float = 1.0, count: int = 5):
    """A run whose plan takes 81 ms times `by` in `count` processes."""
    return sample_runs.in_processes(sample_runs.run(organisation, engineer), count, by)


def test_a_slower_run_ends_with_seven_and_names_both(cli, organisation, engineer):
    kept, slower = finished(organisation, engineer), finished(organisation, engineer, by=1.05)
    done = cli("show", slower.id, "--against", str(kept.id)[:8], "--fail-on-regression", "3%")
    assert done.exit_code == 7, done.stderr
    assert f"run {str(slower.id)[:8]}" in done.stderr
    assert f"run {str(kept.id)[:8]}" in done.stderr
    assert "by more than 3.0 %: median TTF64" in done.stderr


def test_a_run_as_fast_keeps_its_verdicts_code(cli, organisation, engineer):
    kept, same = finished(organisation, engineer), finished(organisation, engineer)
    done = cli("show", same.id, "--wait", "--against", kept.id, "--fail-on-regression", "3")
    assert done.exit_code == 0, done.stderr
    assert "is not shown to be worse than" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--against", "{kept}"], "--against and --fail-on-regression go together."),
        (["--against", "{kept}", "--fail-on-regression", "much"], "takes a percentage above 0 and up to 100"),
        (["--against", "{kept}", "--fail-on-regression", "0%"], "takes a percentage above 0 and up to 100"),
        (["--against", "{new}", "--fail-on-regression", "3%"], "--against names the same run"),
        (["--against", "0123", "--fail-on-regression", "3%"], "there is no such run"),
    ],
)
def test_options_that_make_no_sense(cli, organisation, engineer, options, said):
    kept, new = finished(organisation, engineer), finished(organisation, engineer)
    done = cli("show", new.id, *(each.format(kept=kept.id, new=new.id) for each in options))
    assert done.exit_code == 2
    assert said in done.stderr


def test_too_few_processes_are_not_enough_samples(cli, organisation, engineer):
    kept, new = finished(organisation, engineer), finished(organisation, engineer, count=3)
    done = cli("show", new.id, "--against", kept.id, "--fail-on-regression", "3%")
    assert done.exit_code == 4
    assert "A regression cannot be judged" in done.stderr
