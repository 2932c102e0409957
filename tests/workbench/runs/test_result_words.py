"""Each outcome has words of its own on its result's page, and no number breaks over two lines."""

import pytest
import sample_results
import sample_runs
from sample_two_gpus import two_gpus

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown(browser, organisation, engineer):
    """`shown(results)`: the page of a run that found these."""

    def show(results):
        run = sample_runs.run(organisation, engineer)
        for stage in ("verify", "price"):
            run.stages.filter(stage=stage).update(result=getattr(results, stage).model_dump(mode="json"))
        return browser(engineer).get(f"/runs/{run.id}/result/").content.decode()

    return show


def test_a_speedup_inside_the_noise_is_none_and_says_within_one_process(shown):
    results = sample_results.results()
    speedup = results.verify.speedup
    ratio = speedup.ratio.model_copy(update={"value": 1.002, "low": 0.99, "high": 1.01})
    same = speedup.model_copy(update={"difference": False, "ratio": ratio, "processes": []})
    results.verify = results.verify.model_copy(update={"speedup": same})
    page = shown(results)
    assert '<span class="stat-value">none</span>' in page
    assert '<span class="nowrap">0.990 to 1.01</span>, within one process, lies inside the noise' in page
    assert '<span class="badge badge-cancelled">No difference</span>' in page


def test_rounded_weights_say_what_they_bring_and_cost(shown):
    results = sample_results.results()
    assert "Weights in" not in shown(results)
    quality = results.verify.quality.model_copy(update={"called": "quality"})
    plan = results.verify.plan | {"dtype": "bf16", "options": {"weights": "int8"}}
    page = shown(
        results.model_copy(update={"verify": results.verify.model_copy(update={"quality": quality, "plan": plan})})
    )
    assert (
        "Weights in int8 take 1.06 bytes each in place of 2; the mean KL divergence from float32 is 0.00120 nats after "
        "and 0.00110 before."
    ) in page
    plan["options"] = {"weights": "int4_minimum"}
    page = shown(
        results.model_copy(update={"verify": results.verify.model_copy(update={"quality": quality, "plan": plan})})
    )
    assert "Weights in int4 take 0.625 bytes each in place of 2, those of the LM head, in int8, 1.06; the mean" in page


def test_a_plan_on_two_gpus_says_what_ran_on_how_many_and_what_an_hour_costs(shown):
    page = shown(two_gpus())
    assert "after on 2 of the same kind." in page
    assert "Two GPUs keep the promise and cost more per token than one" in page
    assert ">$/hour</a>" in page
    assert "<td>2 x Test device</td>" in page


def test_a_run_offers_its_result_once_something_is_measured(browser, organisation, engineer, account, done):
    def actions(run, user):
        page = browser(user).get(f"/runs/{run.id}/").content.decode()
        return page.partition('id="run-actions"')[2].partition("</header>")[0]

    begun = sample_runs.run(organisation, engineer, state="running", upto="baseline")
    assert f"/runs/{begun.id}/result/" not in browser(engineer).get(f"/runs/{begun.id}/").content.decode()
    refused = sample_runs.run(organisation, engineer, state="failed", upto="baseline")
    assert f"/runs/{refused.id}/result/" not in actions(refused, engineer)
    assert f"/workloads/new/?from={refused.workload_id}" in actions(refused, engineer)
    assert f"/workloads/new/?from={refused.workload_id}" not in actions(refused, account)
    profiled = sample_runs.run(organisation, engineer, state="failed", upto="profile")
    assert all(f"/runs/{run.id}/result/" in actions(run, account) for run in (profiled, done))


def test_a_verified_plan_comes_with_the_commands_that_serve_it(shown):
    page = shown(sample_results.results())
    section = page.partition('id="serve"')[2].partition("</section>")[0]
    assert "python -m kernels serve --plan plan.json --model llama-3.2-1b" in section
    assert "curl localhost:8080/v1/completions" in section
    assert section.count("data-copy=") == 3
    assert "/plan.json" in section


def test_loads_are_shown_with_what_served_them(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer, load=True)
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    said = page.partition('id="objectives"')[0]
    assert "Before, no load is shown to keep every promise. After, every promise is kept with" in said, "at the top"
    assert said.index("Price under the promise") < said.index("Price at one load")
    assert "$1.28" in said
    assert "Generate of transformers, in batches: whenever it is free, it takes all requests that wait" in page
    assert "The price at each load, whatever the promise" in page
    assert "$0.0831" in page.partition('id="any-load"')[2].partition("</table>")[0]
    assert "After: 64 of its answers were held against the model" in page
    assert 'data-figure="figure-load"' in page
    assert 'data-figure="figure-load_promise"' in page
