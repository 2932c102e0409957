"""Each outcome has words of its own on the pages of its run, and no number breaks over two lines."""

import pytest
import sample_results
import sample_runs
from django.template.loader import render_to_string
from sample_two_gpus import two_gpus

from workbench.results import page_context
from workbench.runs.models import Run
from workbench.runs.services import minutes_wanted
from workers.documents.measurement import Interval
from workers.documents.quality import Measure, Quality
from workers.documents.speedup import ProcessMedians
from workers.documents.traffic import Traffic
from workers.stages.price import price

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


def test_a_speedup_inside_the_noise_is_none_and_a_plan_comes_with_the_commands_that_serve_it(shown):
    results = sample_results.results()
    speedup = results.verify.speedup
    ratio = speedup.ratio.model_copy(update={"value": 1.002, "low": 0.99, "high": 1.01})
    same = speedup.model_copy(update={"difference": False, "ratio": ratio, "processes": []})
    results.verify = results.verify.model_copy(update={"speedup": same})
    page = shown(results)
    for part in (
        '<span class="stat-value">none</span>',
        '<span class="nowrap">0.990 to 1.01</span>, within one process, lies inside the noise',
        '<span class="badge badge-cancelled">No difference</span>',
    ):
        assert part in page
    section = page.partition('id="serve"')[2].partition("</section>")[0]
    for part in ("python -m kernels serve --plan plan.json --model llama-3.2-1b", "/v1/completions", "/plan.json"):
        assert part in section
    assert section.count("data-copy=") == 3


def test_before_and_after_that_took_turns_say_how_many(shown):
    results = sample_results.results()
    medians = [ProcessMedians(before=281, after=81, ratio=3.47, pairs=3)] * 3
    speedup = results.verify.speedup.model_copy(update={"processes": medians, "turns": True})
    results.verify = results.verify.model_copy(update={"turns": 3, "speedup": speedup})
    page = shown(results)
    assert ", in 3 turns of each; limits" in page
    assert "over 3 turns of each side: " in page
    assert '<th scope="col">Turn of each side</th>' in page


def test_rounded_weights_say_what_they_bring_and_cost(shown):
    results = sample_results.results()
    assert "Weights in" not in shown(results)
    quality = results.verify.quality.model_copy(update={"called": "quality"})
    for weights, words in (
        ("int8", "Weights in int8 take 1.06 bytes each in place of 2; the mean KL divergence from float32 is 0.00120"),
        ("int4_minimum", "Weights in int4 take 0.625 bytes each in place of 2, those of the LM head, in int8, 1.06"),
    ):
        plan = results.verify.plan | {"dtype": "bf16", "options": {"weights": weights}}
        verified = results.verify.model_copy(update={"quality": quality, "plan": plan})
        assert words in shown(results.model_copy(update={"verify": verified}))


def test_a_plan_on_two_gpus_says_what_ran_on_how_many_and_what_an_hour_costs(shown):
    page = shown(two_gpus())
    costs = "Two GPUs keep the promise and cost more per token"
    for part in ("after on 2 of the same kind.", costs, ">$/hour</a>", "<td>2 x Test device</td>"):
        assert part in page


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
    ends = [("failed", "profile"), ("failed", "verify"), ("cancelled", "compose"), ("lost", "verify")]
    profiled = [sample_runs.run(organisation, engineer, state, stage) for state, stage in ends]
    assert all(f"/runs/{run.id}/result/" in actions(run, account) for run in (*profiled, done))
    assert all(f"/workloads/new/?from={run.workload_id}" in actions(run, engineer) for run in profiled)
    assert "/workloads/new/?from=" not in actions(done, engineer)


def test_loads_are_shown_with_what_served_them_and_the_recording_that_they_replay(browser, organisation, engineer):
    run = sample_runs.run(organisation, engineer, load=True)
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    text = page.partition('id="objectives"')[0]
    assert "Before, no load is shown to keep every promise. After, every promise is kept with" in text, "at the top"
    assert text.index("Price under the promise") < text.index("Price at one load")
    assert "$1.28" in text
    assert "$0.0831" in page.partition('id="any-load"')[2].partition("</table>")[0]
    for part in (
        "Generate of transformers, in batches",
        "The price at each load",
        "After: 64 of its answers were held against the model",
        'data-figure="figure-load"',
        'data-figure="figure-load_promise"',
    ):
        assert part in page
    run = sample_runs.run(organisation, engineer, load=True)
    sample_runs.replaying(run, engineer)
    client = browser(engineer)
    result = " ".join(client.get(f"/runs/{run.id}/result/").content.decode().split())
    assert "calls.csv: 12,000 requests over 600 s. Every load replays it" in result
    assert "every promise is kept at 2 times the recorded speed" in result.replace("\N{NO-BREAK SPACE}", " ")
    workload = " ".join(client.get(f"/workloads/{run.workload_id}/").content.decode().split())
    assert "12,000 requests over 600 s" in workload
    copy = client.get(f"/workloads/new/?from={run.workload_id}").content.decode()
    assert f'<option value="{"c" * 64}" selected>calls.csv: 12,000 requests over 600 s</option>' in copy
    assert copy.count('<option value="recorded" selected>') == 3


def test_the_result_page_offers_the_minutes_that_were_missing_and_starts_such_a_run(browser, engineer, account, done):
    client = browser(engineer)
    assert b"Go on with" not in client.get(f"/runs/{done.id}/result/").content
    answer = client.post(f"/runs/{done.id}/go-on/", follow=True)
    assert "Not started: the run left out no plan." in answer.content.decode()
    stage = done.stages.get(stage="verify")
    stage.result |= {"verdict": "not_enough_samples", "minutes_wanted": 7.5}
    stage.save()
    assert b"Go on with" not in browser(account).get(f"/runs/{done.id}/result/").content
    assert browser(account).post(f"/runs/{done.id}/go-on/").status_code == 403
    assert Run.objects.count() == 1
    page = client.get(f"/runs/{done.id}/result/").content
    assert b"Go on with 7.5 minutes" in page
    assert page.count(b"button-primary") == 1, "one thing is to be done next"
    answer = client.post(f"/runs/{done.id}/go-on/")
    longer = Run.objects.exclude(id=done.id).get()
    assert answer.url == f"/runs/{longer.id}/"
    assert longer.workload.sla.constraints.minutes == 7.5
    assert longer.workload.sla.objectives == done.workload.sla.objectives
    assert longer.workload.model.name == done.workload.model.name
    assert minutes_wanted(longer) is None


def test_an_undecided_run_offers_more_minutes_unless_it_goes_on(browser, engineer, account, done):
    offer = "Give it more minutes"
    assert offer not in browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
    for verdict in ("not_enough_samples", "too_close"):
        Run.objects.filter(id=done.id).update(verdict=verdict)
        assert offer in browser(engineer).get(f"/runs/{done.id}/result/").content.decode()
        assert offer not in browser(account).get(f"/runs/{done.id}/result/").content.decode()
    stage = done.stages.get(stage="verify")
    stage.result |= {"verdict": "not_enough_samples", "minutes_wanted": 7.5}
    stage.save()
    assert offer not in browser(engineer).get(f"/runs/{done.id}/result/").content.decode()


def test_samples_beyond_the_limit_are_counted_of_promises_that_have_one():
    known = sample_results.results()
    first = known.verify.outcomes[0]
    ratio = first.objective.model_copy(update={"limit": None, "at_least_faster": 50.0})
    for objective, counted in ((first.objective, first.over), (ratio, "–")):
        outcome = first.model_copy(update={"objective": objective})
        results = known.model_copy(update={"verify": known.verify.model_copy(update={"outcomes": [outcome]})})
        facts = page_context.context(sample_results.workload(), sample_results.manifest(), results, [])
        table = render_to_string("results/_result.html", facts).partition("Samples over the limit")[2]
        row = table.partition("</tr>")[2]
        assert f'<td class="number">{counted}</td>' in row.partition("</tr>")[0]


def test_the_page_of_a_model_of_images_counts_images():
    model = sample_results.manifest().model_copy(update={"kind": "other", "counted": "images"})
    workload = sample_results.workload().model_copy(update={"present": None, "traffic": Traffic(batch=8)})
    known = sample_results.results()
    quality = Quality(
        called="quality",
        tokens=300,
        needed=300,
        compared="answers",
        change=Interval(value=0, low=0, high=0),
        measures=[Measure(name="Another class is the most likely", before=0.01, after=0.0125)],
        acceptable=True,
        sentence="Quality over 300 images: acceptable.",
    )
    verified = known.verify.model_copy(update={"counted": "images", "quality": quality})
    priced = price(workload, known.price.book, "h200", verified, model)
    results = known.model_copy(update={"verify": verified, "price": priced})
    page = render_to_string("results/_result.html", page_context.context(workload, model, results, []))
    own = "transformers&#x27; own forward pass, eager"
    for words in ("A dollar buys", quality.measures[0].name, "$/M images", "USD per M images", "one image a", own):
        assert words in page
    tokens = "tokens/s,Tokens/s,M tokens,million tokens,KL divergence,output tokens,own generate"
    for words in tokens.split(","):
        assert words not in page


@pytest.mark.parametrize(
    ("holds", "words"), [(True, "a million tokens, at "), (False, "No price: the promise is not kept")]
)
def test_the_question_of_the_cost_is_answered_beside_its_heading(holds, words):
    known = sample_results.results()
    today, after, *others = known.price.lines
    after = after.model_copy(update={"holds_sla": holds} | ({} if holds else {"usd_per_mtok": None}))
    results = known.model_copy(
        update={"price": known.price.model_copy(update={"lines": [today, after, *others]}), "load": None}
    )
    known_facts = page_context.context(sample_results.workload(), sample_results.manifest(), results, [])
    page = render_to_string("results/_result.html", known_facts | {"same_load": None})
    assert words in page.partition("What does it cost?")[2].partition("</summary>")[0]


def test_a_run_that_was_cancelled_before_anything_was_measured_says_so(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "queued", "admit")
    browser(engineer).post(f"/runs/{run.id}/cancel/")
    page = browser(engineer).get(f"/runs/{run.id}/").content.decode()
    assert "The run was cancelled. Nothing was measured before." in page
    assert "Nothing was measured.</p>" in page
    assert "yet" not in page.partition("<main")[2]
    admit = page.partition('data-stage="admit"')[2].partition("</li>")[0]
    assert '<span class="stage-message">Checking the model and predicting what is possible</span>' in admit


def test_a_run_that_failed_beside_other_programs_says_so(browser, engineer, organisation):
    run = sample_runs.run(organisation, engineer, "failed", "verify")
    stage = run.stages.get(stage="compose")
    stage.result["environment"] |= {"gpu_class": "cpu", "telemetry": {"others_cpu_share": 0.87}}
    stage.save()
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert "Other programs used 87 % of the CPU: run it again on an idle machine." in page
    run = sample_runs.run(organisation, engineer, "cancelled", "verify")
    run.stages.filter(stage="compose").update(result=stage.result)
    page = browser(engineer).get(f"/runs/{run.id}/result/").content.decode()
    assert ("it was cancelled in the verify stage." in page, "idle machine" in page) == (True, False)
