"""Each outcome has words of its own on its result's page, and no number breaks over two lines."""

import re

import pytest
import sample_results
import sample_runs
from sample_no_change import no_change
from sample_two_gpus import two_gpus

from workbench.pages.templatetags.figures import unbroken
from workbench.runs.models import Run

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


def test_no_change_has_one_column_and_says_so_beside_the_verdict(shown):
    page = shown(no_change())
    assert '<span class="badge badge-cancelled">No change recommended</span>' in page
    assert '<th scope="col" class="number words">Today</th>' in page
    assert '<th scope="col" class="number">After</th>' not in page.partition('id="plan"')[0]
    economics = page[page.index('id="economics"') : page.index('id="where"')]
    assert '<tr><th scope="row">Today</th>' in economics
    assert re.findall(r">(After|Before)<", economics) == []


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


def test_generate_has_its_name_where_vllm_is_before_under_load(shown):
    results = sample_results.results()
    assert "enerate of transformers" not in shown(results)
    named = {"compared_with": "generate of transformers"}
    page = shown(results.model_copy(update={"verify": results.verify.model_copy(update=named)}))
    latency = page[page.index('<section class="card" aria-labelledby="objectives">') : page.index('id="plan"')]
    assert "Latency with generate of transformers and after" in latency
    assert re.findall(r">([^<>]*\b[Bb]efore\b[^<>]*)<", latency) == []
    unchanged = no_change()
    unchanged.verify = unchanged.verify.model_copy(update=named)
    page = shown(unchanged)
    assert '<th scope="col" class="number words">Generate of transformers</th>' in page
    assert '<h3 id="plan">Generate of transformers</h3>' in page


def test_a_plan_on_two_gpus_says_what_ran_on_how_many_and_what_an_hour_costs(shown):
    page = shown(two_gpus())
    assert "after on 2 of the same kind." in page
    assert "Two GPUs keep the promise and cost more per token than one" in page
    assert ">$/hour</a>" in page
    assert "<td>2 x Test device</td>" in page


def test_the_page_says_why_there_is_no_profile_of_the_plan(shown):
    why = "The plan was not profiled: that takes 8 s, and 3 s of the stage were left."
    known = sample_results.results()
    assert "The plan was not profiled" not in shown(known)
    page = shown(
        known.model_copy(update={"verify": known.verify.model_copy(update={"profile": None, "no_profile": why})})
    )
    assert 'id="left"' in page
    assert why in re.sub("</?span[^>]*>", "", page)


def test_the_page_of_a_model_without_tokens_names_its_forward_pass(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    model = run.workload.model
    model.manifest = model.manifest | {"kind": "other", "counted": "images"}
    model.save()
    verify = sample_results.results().verify
    quality = verify.quality.model_copy(update={"text": None, "source": "random images"})
    found = verify.model_copy(update={"quality": quality}).model_dump(mode="json")
    run.stages.filter(stage="verify").update(result=found)
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert "transformers&#x27; own forward pass" in page
    assert "<dt>Before</dt><dd>what runs today, as stated: transformers&#x27; own forward pass, eager</dd>" in page
    assert "own generate" not in page
    assert "No task was measured; the inputs are random images." in page


def test_numbers_stay_on_one_line_with_their_units():
    said = unbroken("TTF64 is 99.5 ms <of> 100 ms, 2.81 to 2.84 times, at $4.18, 3 % of 1,024 tokens, 2.8x, 2.48 GB.")
    assert said == (
        'TTF64 is <span class="nowrap">99.5 ms</span> &lt;of&gt; <span class="nowrap">100 ms</span>, '
        '<span class="nowrap">2.81 to 2.84</span> times, at $4.18, <span class="nowrap">3 %</span> of 1,024 tokens, '
        '<span class="nowrap">2.8x</span>, <span class="nowrap">2.48 GB</span>.'
    )


def test_the_run_can_be_shown_on_the_command_line_by_a_short_id(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert f'<code data-copy="the command">workbench show {str(run.id)[:8]}</code>' in page


def test_nobody_is_told_to_start_a_worker_on_a_server(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer, state="queued", upto="admit")
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert "Waiting for a worker of class h200" in page
    assert "make up" not in page


def test_a_failed_run_offers_to_change_its_workload(browser, organisation, engineer, account):
    run = sample_runs.run(organisation, engineer, state="failed", upto="profile")
    address = f"/workloads/new/?from={run.workload_id}"
    assert address in browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert address not in browser(account).get(f"/runs/{run.id}/result/").content.decode()
    assert Run.objects.get().error["sentence"] in browser(account).get(f"/runs/{run.id}/result/").content.decode()


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


def test_the_present_deployments_metric_has_its_name(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer)
    page = browser(engineer).get(f"/workloads/{run.workload_id}/").content.decode()
    assert "(TTF64)" in page
    assert "ttf_n" not in page.partition("<details")[0]


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


def test_a_load_stage_that_failed_shows_its_sentence(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer, load=True)
    run.stages.filter(stage="load").update(result={"sentence": "The server did not start."})
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert "The server did not start." in page
    assert 'data-figure="figure-load"' not in page


def test_a_cpu_launches_nothing(browser, engineer, done):
    for name in ("profile", "verify"):
        stage = done.stages.get(stage=name)
        stage.result["environment"]["gpu_class"] = "cpu"
        stage.save()
    page = browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    assert "480 ms of it in 21,000 operations;" in page
    assert "% of the operations' time is" in page
    assert "21,000 launches" not in page
