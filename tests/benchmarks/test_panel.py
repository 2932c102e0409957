"""Whole runs of many models, and their regret."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.panel import Models, Panel, measured_plans, outcome
from benchmarks.panel_objectives import PANEL, TRAINED, choose_objective, entry
from benchmarks.predicted_errors import manifest_of
from tests.sample_results import results
from workbench.accounts import services, tokens
from workbench.accounts.models import User
from workbench.cli.client import ApiClient
from workers.documents.stages import PlanCheck, Results
from workers.documents.workload import Objective
from workers.prediction.predict import divides


@pytest.mark.django_db(transaction=True)
def test_a_run_that_takes_too_long_is_cancelled_and_leaves_a_row(live_server: Any, tmp_path: Path) -> None:
    user = User.objects.create_user("engineer@voice.test", "correct horse battery")
    token = tokens.issue(services.create_organisation("Voice", user), user, "panel", "write")[1]
    panel = Panel("cpu", tmp_path, time.monotonic() + 600, longest=0.0)
    assert not panel.add(ApiClient(live_server.url, "a wrong token"), entry("tiny-bert", None), 0.3)
    assert not panel.add(ApiClient(live_server.url, token), entry("tiny-llama", None), 0.3)
    document = json.loads((tmp_path / "panel.json").read_text())
    assert document["commit"]
    assert document["at"]
    refused, row = document["rows"]
    assert (refused["model"], refused["verdict"], refused["stages"]) == ("tiny-bert", None, {})
    assert refused["sentence"].startswith("CliError: ")
    assert (row["model"], row["gpu"], row["minutes"], row["again"]) == ("tiny-llama", "cpu", 0.3, False)
    assert Objective.model_validate(row["promise"]).label == "TTF64 p50"
    assert (row["sentence"], row["verdict"], row["stages"]) == ("The run was cancelled.", None, {})
    assert (row["predicted"], row["best"], row["regret"]) == (None, None, None)


def test_a_row_says_what_a_run_chose_and_what_it_left_out_for_time() -> None:
    result = results()
    check = PlanCheck(label="kernels", confirmed=True)
    result.verify.checks = [check.model_copy(update={"label": "megakernel", "confirmed": False}), check]
    left_out = result.compose.trials[0].model_copy(update={"label": "megakernel", "skipped": "time"})
    slower = left_out.model_copy(update={"label": "other", "skipped": "prediction"})
    result.compose.trials += [left_out, slower]
    times = {"started_at": "2026-01-01T00:00:10Z", "finished_at": "2026-01-01T00:01:30.5Z"}
    waiting = {"stage": "price", "started_at": None, "finished_at": None}
    run = {"created_at": "2026-01-01T00:00:00Z", "state": "done", "verdict": "met", "error": None}
    row = outcome(run | {"stages": [{"stage": "verify", **times}, waiting]}, result, 40.0)
    assert row["chosen"] == "kernels"
    assert row["figure"] == result.verify.outcomes[0].after
    assert row["regret"] == pytest.approx(row["figure"] / 40, abs=1e-4)
    assert (row["seconds_to_verdict"], row["stages"]) == (90.5, {"verify": 80.5})
    assert row["not_tried_for_time"] == ["megakernel"]
    assert row["seconds_of_starts_and_loads"] is None
    result.baseline.environment = result.baseline.environment.model_copy(update={"seconds_of_starts_and_loads": 3.21})
    result.verify.environment = result.verify.environment.model_copy(update={"seconds_of_starts_and_loads": 4.5})
    row = outcome(run | {"stages": [{"stage": "verify", **times}, waiting]}, result, 40.0)
    assert row["seconds_of_starts_and_loads"] == 7.7


def test_a_row_of_a_run_without_a_verdict_keeps_its_stages_and_says_why() -> None:
    stages = [{"stage": "admit", "started_at": "2026-01-01T00:00:01Z", "finished_at": "2026-01-01T00:00:03Z"}]
    stages += [{"stage": "verify", "started_at": None, "finished_at": None}]
    run = {"created_at": "2026-01-01T00:00:00Z", "state": "failed", "verdict": None, "stages": stages}
    row = outcome(run | {"error": {"sentence": "The model does not fit."}}, Results(), 40.0)
    assert (row["verdict"], row["figure"], row["regret"], row["seconds_to_verdict"]) == (None, None, None, None)
    assert (row["stages"], row["sentence"]) == ({"admit": 2.0}, "The model does not fit.")
    cancelled = run | {"error": None, "state": "cancelled"}
    assert outcome(cancelled, Results(), None)["sentence"] == "The run was cancelled."


def test_a_promise_has_room_over_what_is_predicted_and_known() -> None:
    for gpu in ("h100", "h200"):
        result = choose_objective(entry("llama-3.2-1b", None), gpu)
        assert result.source.startswith("results/")
        assert max(result.predicted, result.best) * 1.1 < result.objective["limit"] < result.best * 1.5


def test_every_model_of_the_panel_is_there() -> None:
    result = [entry(name, None) for name in PANEL if name != TRAINED]
    assert all(manifest_of(item.name, item.config).parameters for item in result)
    nine = entry("llama-9-layers", None)
    assert divides(manifest_of(nine.name, nine.config), 1)
    with pytest.raises(ValueError, match="--trained"):
        entry(TRAINED, None)
    with pytest.raises(ValueError, match=r"the models are .*llama-9-layers"):
        entry("llama-10-layers", None)


def test_other_models_come_before_a_trained_one_whose_parts_are_missing(tmp_path: Path) -> None:
    with closing(Models([(TRAINED, 3.0), ("tiny-llama", 3.0)], tmp_path / "model", tmp_path / "parts")) as models:
        following = models.next()
        assert following[0].name == "tiny-llama"
        assert models.next() is None
        assert models.waiting == [(TRAINED, 3.0)]


def test_a_plan_of_today_or_one_without_a_figure_is_not_the_first() -> None:
    stage: dict[str, object] = {"started_at": "2026-11-29T00:00:00Z", "partial": None, "result": None}
    assert measured_plans(stage | {"partial": {"eager": "220 ms", "megakernel": "error"}}) == set()
    assert measured_plans(stage | {"partial": {"eager": "220 ms", "kernels": "1,204 ms"}}) == {"kernels"}
    trials = {"trials": [{"label": name, "primary": {"value": 1.0}} for name in ("eager", "megakernel")]}
    assert measured_plans(stage | {"result": trials}) == {"megakernel"}
    taken = stage | {"started_at": None, "result": trials}
    assert measured_plans(taken) == set(), "a search that was taken over measures nothing"
