"""Watching a run to its end, comparing runs, and the exit code that a build is gated on."""

import json
from types import SimpleNamespace

import pytest
from django.utils import timezone

from tests import sample_runs
from workbench.intake import blobs
from workbench.intake.models import Model
from workbench.runs.models import Run, StageRun

pytestmark = pytest.mark.django_db(transaction=True)
VERDICTS = {"met": 0, "missed": 1, "not_enough_samples": 4, "too_close": 6}


def test_the_exit_code_is_the_verdict(cli, done):
    error = {"sentence": "the config is absurd", "refused": True, "file": "config.json", "field": "hidden_size"}
    ends = [("done", verdict, code) for verdict, code in VERDICTS.items()]
    for state, verdict, code in [*ends, ("failed", "", 3), ("cancelled", "", 5), ("lost", "", 5)]:
        Run.objects.update(state=state, verdict=verdict, error=error if state == "failed" else None)
        waited = cli("show", done.id, "--wait")
        assert waited.exit_code == code
        assert ("config.json: hidden_size: the config is absurd" in waited.stderr) == (state == "failed")
        assert cli("show", done.id, "--wait", "--json").exit_code == code
        assert cli("show", done.id).exit_code == 0, "only a command that waits ends as the run does"


def test_it_follows_the_stages_until_the_run_is_over(cli, done, monkeypatch):
    Run.objects.update(state="running", verdict="", stage="verify")
    rows = StageRun.objects.filter(run=done)
    rows.filter(stage__in=["verify", "price", "report"]).update(state="pending")
    steps = iter(
        [
            lambda: rows.filter(stage="verify").update(state="running", message="interleaving before and after"),
            lambda: rows.filter(stage="verify").update(attempt=2, message="again"),
            lambda: rows.update(state="done"),
            lambda: Run.objects.update(state="done", verdict="met", finished_at=timezone.now()),
        ]
    )
    monkeypatch.setattr("workbench.cli.follow.time", SimpleNamespace(sleep=lambda _: next(steps)()))
    followed = cli("show", done.id, "--wait")
    assert (followed.exit_code, "verify  running  interleaving before and after" in followed.stderr) == (0, True)
    assert "verify  running (attempt 2)  again" in followed.stderr
    assert "verify  done" in followed.stderr


def test_ctrl_c_leaves_the_run_alone(cli, done, monkeypatch):
    Run.objects.update(state="running", verdict="")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.cli.follow.time", SimpleNamespace(sleep=interrupt))
    stopped = cli("show", done.id, "--wait")
    assert stopped.exit_code == 130
    assert f"the run goes on: workbench show {done.id} --wait" in stopped.stderr
    assert Run.objects.get().state == "running"


def test_before_and_after_say_where_they_come_from_and_json_has_the_results(cli, done):
    shown = cli("show", done.id).stdout
    for words in ("TTF64 p50", "(measured", "81.0 ms", "speedup (measured)", "repeats", "$/M tokens (speed measured"):
        assert words in shown
    for words in ("Measured on Test device (h200)", "$/M tokens, present deployment", "Verdict: met"):
        assert words in shown
    document = json.loads(cli("show", done.id, "--json").stdout)
    assert (document["verdict"], bool(document["results"]["verify"]["outcomes"])) == ("met", True)


def test_the_latest_run_is_shown_cancelled_and_run_again_and_all_are_listed(cli, done):
    shown = cli("show", "--latest").stdout
    assert all(words in shown for words in ("verify  ", "finished", "Verdict: met"))
    again = json.loads(cli("rerun", "--latest", "--json").stdout)
    assert (again["workload"], again["state"]) == (str(done.workload_id), "queued")
    assert "is cancelled." in cli("cancel", again["id"][:8]).stdout
    complete = cli("go-on", done.id)
    assert (complete.exit_code, "the run left out no plan" in complete.stderr) == (2, True)
    stage = done.stages.get(stage="verify")
    stage.result["minutes_wanted"] = 7.5
    stage.save()
    longer = json.loads(cli("go-on", done.id, "--json").stdout)
    assert Run.objects.get(id=longer["id"]).workload.document["constraints"]["minutes"] == 7.5
    Run.objects.filter(id=longer["id"]).delete()
    shown = [line.split() for line in cli("show", again["id"]).stdout.splitlines()]
    assert ["price", "not", "run"] in shown
    assert not any("pending" in line for line in shown)
    over = cli("cancel", "--latest")
    assert (over.exit_code, "the run is over" in over.stderr) == (2, True)
    for none in (cli("show"), cli("cancel", done.id, "--latest")):
        assert (none.exit_code, "Name a run or say --latest" in none.stderr) == (2, True)
    Run.objects.all().delete()
    made = {str(sample_runs.run(done.organisation, done.created_by).id) for _ in range(3)}
    assert {row["id"] for row in json.loads(cli("runs", "--json").stdout)} == made
    assert len(json.loads(cli("runs", "--limit", 2, "--json").stdout)) == 2
    assert {item[:8] for item in made} <= set(cli("runs").stdout.split())
    assert "llama-3.2-1b" in cli("models").stdout
    assert json.loads(cli("models", "--json").stdout)["models"][0]["name"] == "llama-3.2-1b"
    Model.objects.update(manifest={})
    assert "This version cannot read the stored manifest" in cli("models").stdout


def test_plan_and_report_are_written_or_a_sentence_says_why_not(cli, done, tmp_path):
    plan, report = tmp_path / "p.json", tmp_path / "r.html"
    assert cli("plan", done.id, "-o", plan).exit_code == 0
    assert json.loads(plan.read_text()) == StageRun.objects.get(stage="verify").result["plan"]
    assert cli("report", done.id, "-o", report).exit_code == 0
    assert report.read_bytes() == blobs.path_of(done.artifacts.get(name="report.html").sha256).read_bytes()
    unwritable = cli("plan", done.id, "-o", tmp_path / "no" / "p.json")
    assert (unwritable.exit_code, "No such file or directory" in unwritable.stderr) == (2, True)


def finished(organisation, engineer, by: float = 1.0, count: int = 5):
    """A run whose plan takes 81 ms times `by` in `count` processes."""
    return sample_runs.in_processes(sample_runs.run(organisation, engineer), count, by)


def test_a_slower_run_ends_with_seven_and_too_few_processes_with_four(cli, organisation, engineer):
    kept, slower = finished(organisation, engineer), finished(organisation, engineer, by=1.05)
    done = cli("show", slower.id, "--against", str(kept.id)[:8], "--fail-on-regression", "3%")
    assert done.exit_code == 7, done.stderr
    assert f"run {str(slower.id)[:8]}" in done.stderr
    assert f"run {str(kept.id)[:8]}" in done.stderr
    assert "by more than 3.0 %: median TTF64" in done.stderr
    kept, same = finished(organisation, engineer), finished(organisation, engineer)
    done = cli("show", same.id, "--wait", "--against", kept.id, "--fail-on-regression", "3")
    assert done.exit_code == 0, done.stderr
    assert "is not shown to be worse than" in done.stderr
    kept, new = finished(organisation, engineer), finished(organisation, engineer, count=3)
    done = cli("show", new.id, "--against", kept.id, "--fail-on-regression", "3%")
    assert (done.exit_code, "A regression cannot be judged" in done.stderr) == (4, True)


def test_options_that_make_no_sense(cli, organisation, engineer):
    older, new = (str(finished(organisation, engineer).id) for _ in range(2))
    percent = "--fail-on-regression"
    for options, said in (
        (["--against", older], "--against and --fail-on-regression go together."),
        (["--against", older, percent, "much"], "takes a percentage above 0 and up to 100"),
        (["--against", older, percent, "0%"], "takes a percentage above 0 and up to 100"),
        (["--against", new, percent, "3%"], "--against names the same run"),
        (["--against", "0123", percent, "3%"], "there is no such run"),
    ):
        done = cli("show", new, *options)
        assert (done.exit_code, said in done.stderr) == (2, True)


def test_compare_prints_what_the_page_shows_and_runs_names_them(cli, organisation, engineer):
    first, second = (sample_runs.run(organisation, engineer) for _ in range(2))
    done = cli("compare", str(first.id)[:8], second.id)
    assert done.exit_code == 0, done.stderr
    titles = "Objectives,TTF64,TPOT,Speedup over its own before,Operations,Plans,Where it was measured,Cost"
    for words in (*titles.split(","), f"A: {first.workload.name}"):
        assert words in done.stdout
    done = cli("compare", first.id)
    assert (done.exit_code, "two to 6 runs" in done.stderr) == (2, True)
    listed = cli("runs").stdout
    assert all(words in listed for words in (first.workload.name[:10], first.workload.model.name, str(first.id)[:8]))


def test_an_id_that_no_run_has(cli, organisation):
    for given, sentence in (
        ("00000000-0000-4000-8000-000000000000", "No such run in this organisation"),
        ("0123", "0123: there is no such run"),
        ("../runs", "../runs: this is no run's id"),
        ("last", "last: this is no"),
    ):
        done = cli("show", given)
        assert (done.exit_code, sentence in done.stderr) == (2, True)
