"""The page of a run that ended without a verdict."""

import pytest
import sample_runs


def test_a_run_that_was_cancelled_before_anything_was_measured_says_so(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "queued", "admit")
    browser(engineer).post(f"/runs/{run.id}/cancel/")
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert "The run was cancelled. Nothing was measured before." in page
    assert "Nothing was measured.</p>" in page
    assert "yet" not in page.partition("<main")[2]
    admit = page.partition('data-stage="admit"')[2].partition("</li>")[0]
    assert '<span class="stage-message">Checking the model and predicting what is possible</span>' in admit


@pytest.mark.parametrize(("state", "stage"), [("failed", "verify"), ("cancelled", "compose"), ("lost", "verify")])
def test_a_run_that_ended_without_a_verdict_leads_to_another(
    browser, engineer, account, done, organisation, state, stage
):
    run = sample_runs.run(organisation, engineer, state, stage)
    again = f'href="/workloads/new/?from={run.workload_id}"'
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert (again in page, f'href="/runs/{run.id}/result/"' in page) == (True, True)
    assert again not in browser(account).get(f"/runs/{run.id}/").content.decode()
    assert "/workloads/new/?from=" not in browser(engineer).get(f"/runs/{done.id}/").content.decode()


def test_a_run_that_failed_beside_other_programs_says_so(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "failed", "verify")
    stage = run.stages.get(stage="compose")
    stage.result["environment"] |= {"gpu_class": "cpu", "telemetry": {"others_cpu_share": 0.87}}
    stage.save()
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert "Other programs used 87 % of the CPU: run it again on an idle machine." in page
