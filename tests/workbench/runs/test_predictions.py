"""Errors of predictions are kept by GPU and organisation, and stand beside figures that are modelled."""

import sample_bring_up
import sample_runs
from django.urls import reverse

from tests.workers.test_promises import model
from workbench.intake.services.ceilings import known_ceilings
from workbench.results.predictions import error_words
from workbench.runs import services
from workbench.runs.run_queue import key_of

NONE_YET = "On NVIDIA H200 no run has yet compared what was predicted with what was measured."


def test_the_error_is_that_of_the_organisations_runs_on_the_gpu(organisation, engineer, foreigner):
    assert error_words(organisation, "h200") == NONE_YET
    sample_runs.run(organisation, engineer)
    found = sample_runs.run(organisation, engineer)
    assert "over 4 figures of 2 runs." in error_words(organisation, "h200")
    assert error_words(organisation, "h200x4") == error_words(organisation, "h200")
    assert error_words(organisation, "h100") == NONE_YET.replace("H200", "H100")
    assert error_words(foreigner.memberships.get().organisation, "h200") == NONE_YET
    predicted = found.stages.get(stage="report").result["predicted"]
    assert [each["label"] for each in predicted] == ["TTF64 p50", "TPOT p50"]


def test_admit_starts_from_the_ceilings_of_the_newest_run(organisation, engineer):
    assert known_ceilings(organisation, ["h200", "h100x2"]) == {}
    done = sample_runs.run(organisation, engineer)
    waiting = sample_runs.run(organisation, engineer, "queued", "admit")
    ceilings = services.stage_input(waiting, key_of(waiting)).ceilings
    assert list(ceilings) == ["h200"]
    assert ceilings["h200"].model_dump(mode="json") == done.stages.get(stage="profile").result["ceilings"]
    assert ceilings == known_ceilings(organisation, ["h200x4", "h200", "h100"])
    later = sample_runs.run(organisation, engineer, "running", "verify")
    assert services.stage_input(later, key_of(later)).ceilings == {}


def test_profile_takes_the_ceilings_of_the_very_gpu_before_newer_ones_of_another(organisation, engineer):
    for uuid, launch_us in (("GPU-test", 3.0), ("GPU-other", 9.0)):
        stage = sample_runs.run(organisation, engineer).stages.get(stage="profile")
        stage.result["ceilings"] |= {"gpu_uuid": uuid, "launch_us": launch_us}
        stage.save()
    assert known_ceilings(organisation, ["h200"])["h200"].launch_us == 9.0
    assert known_ceilings(organisation, ["h200"], "GPU-third")["h200"].launch_us == 9.0
    waiting = sample_runs.run(organisation, engineer, "queued", "profile")
    assert services.results(waiting).baseline.environment.gpu_uuid == "GPU-test"
    assert services.stage_input(waiting, key_of(waiting)).ceilings["h200"].launch_us == 3.0


def test_every_page_with_modelled_figures_says_the_known_error(browser, organisation, engineer, done, report):
    client, bring_up = browser(engineer), sample_bring_up.row(organisation, engineer)
    other = sample_runs.run(organisation, engineer, load=True)
    for address in (
        reverse("run-result", args=[done.id]),
        reverse("run-fleet", args=[other.id]),
        reverse("report", args=[report.id]),
        f"{reverse('compare')}?run={done.id}&run={other.id}",
    ):
        assert "what was predicted before a run was off by" in client.get(address).content.decode(), address
    beside = f"{reverse('bring-up-compare')}?a={bring_up.id}&b={bring_up.id}"
    for address in (reverse("bring-up", args=[bring_up.id]), beside):
        assert "no run has yet compared what was predicted" in client.get(address).content.decode()
    assert "Predicted before the run" in client.get(reverse("run-result", args=[done.id])).content.decode()


def test_a_workloads_page_has_cost_against_latency_of_its_newest_runs_and_of_other_classes(
    browser, organisation, engineer, foreigner
):
    done = sample_runs.run(organisation, engineer)
    facts = done.workload.model
    facts.manifest = model().model_dump(mode="json") | {"digest": facts.digest}
    facts.save()
    address = reverse("workload", args=[done.workload_id])
    page = browser(engineer).get(address).content.decode()
    assert "Cost against latency" in page
    assert "<td>compiled, CUDA graphs (verified)</td>" in page
    assert "<td>megakernel, bf16</td>" in page
    assert NONE_YET.replace("H200", "H100") in page
    assert NONE_YET not in page  # of the H200 there is a run, so none of its points is modelled
    assert browser(foreigner).get(address).status_code == 404
