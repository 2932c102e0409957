"""Watching a run to its end, and the exit code that a build is gated on."""

import json
from types import SimpleNamespace

import pytest
from django.utils import timezone

from workbench.intake.models import Model
from workbench.runs.models import Run, StageRun

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("state", "verdict", "code"),
    [
        ("done", "met", 0),
        ("done", "missed", 1),
        ("failed", "", 3),
        ("done", "not_enough_samples", 4),
        ("done", "too_close", 6),
        ("cancelled", "", 5),
        ("lost", "", 5),
    ],
)
def test_the_exit_code_is_the_verdict(cli, finished_run, state, verdict, code):
    Run.objects.update(state=state, verdict=verdict)
    assert cli("show", finished_run.id, "--wait").exit_code == code
    assert cli("show", finished_run.id, "--wait", "--json").exit_code == code
    assert cli("show", finished_run.id).exit_code == 0


def test_it_follows_the_stages_until_the_run_is_over(cli, finished_run, monkeypatch):
    Run.objects.update(state="running", verdict="", stage="verify")
    rows = StageRun.objects.filter(run=finished_run)
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
    done = cli("show", finished_run.id, "--wait")
    assert done.exit_code == 0
    assert "verify  running  interleaving before and after" in done.stderr
    assert "verify  running (attempt 2)  again" in done.stderr
    assert "verify  done" in done.stderr


def test_ctrl_c_leaves_the_run_alone(cli, finished_run, monkeypatch):
    Run.objects.update(state="running", verdict="")

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.cli.follow.time", SimpleNamespace(sleep=interrupt))
    done = cli("show", finished_run.id, "--wait")
    assert done.exit_code == 130
    assert f"the run goes on: workbench show {finished_run.id} --wait" in done.stderr
    assert Run.objects.get().state == "running"


def test_a_failed_run_says_why(cli, finished_run):
    error = {"sentence": "the config is absurd", "refused": True, "file": "config.json", "field": "hidden_size"}
    Run.objects.update(state="failed", verdict="", error=error)
    done = cli("show", finished_run.id, "--wait")
    assert done.exit_code == 3
    assert "config.json: hidden_size: the config is absurd" in done.stderr


def test_before_and_after_say_where_they_come_from(cli, finished_run):
    shown = cli("show", finished_run.id).stdout
    for words in (
        "TTF64 p50",
        "(measured",
        "81.0 ms",
        "speedup (measured)",
        "repeats",
        "$/M tokens (speed measured",
    ):
        assert words in shown
    assert "Measured on Test device (h200)" in shown
    assert "$/M tokens, present deployment" in shown
    assert "Verdict: met" in shown


def test_the_latest_run_is_shown_cancelled_and_run_again(cli, make_run, finished_run):
    shown = cli("show", "--latest").stdout
    assert "verify  " in shown
    assert "finished" in shown
    assert "Verdict: met" in shown
    again = json.loads(cli("rerun", "--latest", "--json").stdout)
    assert (again["workload"], again["state"]) == (str(finished_run.workload_id), "queued")
    assert "is cancelled." in cli("cancel", again["id"][:8]).stdout
    over = cli("cancel", "--latest")
    assert (over.exit_code, "the run is over" in over.stderr) == (2, True)
    for none in (cli("show"), cli("cancel", finished_run.id, "--latest")):
        assert (none.exit_code, "Name a run or say --latest" in none.stderr) == (2, True)


def test_json_is_the_run_with_its_results(cli, finished_run):
    document = json.loads(cli("show", finished_run.id, "--json").stdout)
    assert document["verdict"] == "met"
    assert document["results"]["verify"]["outcomes"]


def test_runs_and_models_are_listed(cli, make_run):
    made = {str(make_run().id) for _ in range(3)}
    assert {row["id"] for row in json.loads(cli("runs", "--json").stdout)} == made
    assert len(json.loads(cli("runs", "--limit", 2, "--json").stdout)) == 2
    assert {each[:8] for each in made} <= set(cli("runs").stdout.split())
    assert "tiny-llama" in cli("models").stdout
    assert json.loads(cli("models", "--json").stdout)["models"][0]["name"] == "tiny-llama"
    Model.objects.update(manifest={})
    assert "This version cannot read the stored manifest" in cli("models").stdout


def test_plan_and_report_are_written(cli, finished_run, tmp_path):
    plan, report = tmp_path / "p.json", tmp_path / "r.html"
    assert cli("plan", finished_run.id, "-o", plan).exit_code == 0
    assert json.loads(plan.read_text()) == StageRun.objects.get(stage="verify").result["plan"]
    assert cli("report", finished_run.id, "-o", report).exit_code == 0
    assert report.read_text() == "<!doctype html><title>report</title>"


def test_what_cannot_be_written_or_found_is_a_sentence(cli, finished_run, tmp_path):
    unwritable = cli("plan", finished_run.id, "-o", tmp_path / "no" / "p.json")
    assert (unwritable.exit_code, "No such file or directory" in unwritable.stderr) == (2, True)
    foreign = cli("show", "00000000-0000-4000-8000-000000000000")
    assert (foreign.exit_code, "No such run in this organisation" in foreign.stderr) == (2, True)
    odd = cli("show", "../../etc")
    assert (odd.exit_code, "Traceback" not in odd.output) == (2, True)
