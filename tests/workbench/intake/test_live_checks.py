"""What the form of a workload says while it is filled in."""

import re

import pytest
from django.utils import timezone

from kernels.model_files import catalogue
from workbench.intake.forms import templates
from workbench.intake.models import Model, Workload
from workbench.intake.services import objective_words, placement
from workbench.intake.services.catalogue import catalogue_manifest
from workbench.runs.models import Worker
from workers.documents.workload import TITLES, Objective
from workers.documents.workload import Workload as WorkloadDocument

pytestmark = pytest.mark.django_db
FORM = {
    "model": "llama-3.2-1b",
    "traffic.prompt_tokens": "128",
    "traffic.output_tokens": "64",
    "objectives[0].metric": "ttf_n",
    "objectives[0].n": "64",
    "objectives[0].percentile": "50",
    "objectives[0].limit": "100",
    "constraints.gpu_classes": ["h200"],
    "constraints.precisions": ["bf16"],
}


@pytest.fixture
def said(browser, engineer, organisation):
    """`said(**changes)`: what the checks say of FORM with these changes."""
    client = browser(engineer)

    def ask(**changes):
        answer = client.post("/workloads/new/check/", FORM | changes)
        assert answer.status_code == 200
        return answer.content.decode()

    return ask


def test_the_promise_is_said_in_words_also_without_scripts_and_nothing_is_stored(said, browser, engineer):
    words = "In 50 % of requests the first 64 tokens come within 100 ms."
    assert words in said()
    page = browser(engineer).get("/workloads/new/?model=llama-3.2-1b").content.decode()
    assert ('aria-live="polite"' in page, words in page) == (True, True)
    Worker.objects.create(name="c", gpu_class="cpu", last_seen=timezone.now(), memory_gib=16.0)
    page = browser(engineer).get("/workloads/new/?model=llama-3.2-1b").content.decode()
    assert ("at least 1.1 times faster" in page, words in page) == (True, False), "no one knows a CPU's rates"
    assert not Model.objects.exists()
    assert not Workload.objects.exists()
    for metric in TITLES:
        objective = Objective.model_validate({"metric": metric, "n": 64 if metric == "ttf_n" else None, "limit": 987})
        assert re.search(r"\b987\b", objective_words.sentence(objective))


@pytest.mark.parametrize("model", [name for name in catalogue.names() if name.startswith("tiny-")])
def test_the_form_of_a_model_begins_with_what_can_be_started_on_a_cpu(browser, engineer, model):
    Worker.objects.create(name="c", gpu_class="cpu", last_seen=timezone.now(), memory_gib=16.0)
    page = browser(engineer).get(f"/workloads/new/?model={model}").content.decode()
    assert ("at least 1.1 times faster" in page, "notice-error" in page) == (True, False)
    assert "A run of it would go to class cpu." in page


def test_the_prompt_that_a_form_begins_with_is_no_longer_than_the_model_takes():
    bert = catalogue_manifest("tiny-bert")[0]
    bert = bert.model_copy(update={"config": bert.config | {"max_position_embeddings": 100}})
    embedding = WorkloadDocument.model_validate({"model": "x"} | templates.for_kind("encoder").model_dump())
    assert placement.suit_workload(embedding, bert).traffic.prompt_tokens == 100


def test_a_run_beside_vllm_is_told_how_many_minutes_it_takes(said):
    vllm = {"baseline_runner": "vllm", "load.most_users": "8"}
    words = "vLLM&#x27;s server takes about a minute to start: give the run 8 minutes."
    assert words in said(**vllm)
    assert words not in said(**vllm | {"constraints.minutes": "8"})
    assert "give the run 10 minutes." in said(**vllm | {"constraints.minutes": "8", "after_runner": "vllm"})
    assert words not in said(**{"load.most_users": "8"})
    assert "say how many users there are at most" in said(baseline_runner="vllm")
    inside, refused = vllm | {"after_runner": "vllm"}, "the plug-in runs on h100 and h200, and not cpu."
    assert refused not in said(**inside)
    assert refused in said(**inside | {"constraints.gpu_classes": ["cpu"]})


def test_what_is_impossible_is_said_beside_its_label_and_what_is_empty_is_missing(said):
    assert "Percentile of objective 1: should be less than or equal to 99.99, not 100.<" in said(
        **{"objectives[0].percentile": "100"}
    )
    page = said(**{"objectives[0].limit": "", "model": ""})
    assert "Still missing: Limit of objective 1." in page
    assert "notice-error" not in page
    assert "Still missing: Model." in said(model="")
    unequal = said(
        **{
            "traffic.prompt_lengths.kind": "uniform",
            "traffic.prompt_lengths.low": "1",
            "traffic.prompt_lengths.high": "9",
        }
    )
    assert "Prompt lengths under load: a run without load measures equal requests" in unequal
    assert "more than the 131,072 positions that llama-3.2-1b has" in said(**{"traffic.prompt_tokens": "131072"})


def test_the_promises_are_those_of_the_sla_file_also_where_something_in_it_is_wrong(said):
    page = said(sla="foo: 1\nobjectives: [{metric: ttft, percentile: 50, limit: 70}, {metric: tpot, colour: red}]")
    assert "colour of objective 2: is not a known field." in page
    assert ("first token comes within 70 ms" in page, "64 tokens" in page) == (True, False)
    assert "foo: is not a known field." in page
    assert "64 tokens" not in said(sla="objectives: 5")
    page = said(sla="model: gpt-17\nobjectives: [{metric: ttft, limit: 70}]")
    assert ("Model: there is no model &#x27;gpt-17&#x27;." in page, "Still missing" in page) == (True, False)


@pytest.mark.parametrize(("limit", "shown"), [("1e308", "1e+308"), ("1e-300", "1e-300")])
def test_a_limit_that_nothing_reaches_is_no_promise(said, browser, engineer, limit, shown):
    words = f"should be from 0.000001 to 1,000,000,000 ms, not {shown}"
    assert f"Limit of objective 1: {words}" in said(**{"objectives[0].limit": limit})
    form = browser(engineer).post("/workloads/new/", FORM | {"objectives[0].limit": limit, "do": "start"})
    assert (form.status_code, words in form.content.decode()) == (422, True)
    assert not Workload.objects.exists()


def test_living_workers_and_the_memory_that_is_needed_are_said(said):
    assert "No worker is running now: a run waits for one." in said()
    assert "No allowed class (h200) has a running worker" in said()
    Worker.objects.create(name="w", gpu_class="h200", last_seen=timezone.now(), memory_gib=131.0)
    page = said()
    assert "Workers are running for class h200." in page
    assert "needs about 3.3 GiB with this traffic" in page
    assert "A run of it would go to class h200." in page
    Worker.objects.update(memory_gib=2.0)
    assert "of class h200, has 2.0 GiB" in said()


def test_a_promise_that_no_allowed_chip_can_keep_is_wrong_and_one_that_some_cannot_is_warned_of(said):
    impossible = "TTF64 p50 of 5.00 ms is impossible on NVIDIA H200: it takes at least 33 ms in bf16"
    page = said(**{"objectives[0].limit": "5"})
    assert page.count(impossible) == 1
    assert f"Limit of objective 1: {impossible}" in page
    page = said(**{"constraints.gpu_classes": ["h200", "cpu"], "objectives[0].limit": "5"})
    assert page.count(impossible) == 1
    assert "Limit of objective 1" not in page
    assert "impossible" not in said(**{"constraints.gpu_classes": ["cpu"], "objectives[0].limit": "5"})


EIGHT = {
    "model": "llama-3.1-8b",
    "objectives[0].metric": "tpot",
    "objectives[0].n": "",
    "objectives[0].limit": "1.5",
    "constraints.gpu_classes": ["h200", "h100", "cpu"],
}


def _living(*classes):
    for name in classes:
        Worker.objects.create(name=name, gpu_class=name, last_seen=timezone.now(), memory_gib=131.0)


def test_a_model_that_no_allowed_class_holds_is_refused_once_and_goes_to_the_class_that_does(said):
    _living("h200")
    page = said(**EIGHT | {"model": "llama-3.1-70b"})
    assert page.count("llama-3.1-70b needs 132") == 1
    assert "the largest running worker" not in page
    _living("h200x2")
    classes = {"constraints.gpu_classes": ["h200", "h200x2"], "objectives[0].limit": "40"}
    page = said(**EIGHT | classes | {"model": "llama-3.1-70b"})
    assert all(words in page for words in ("it fits h200x2.", "A run of it would go to class h200x2."))


@pytest.mark.parametrize(("gpu_class", "limit", "warned"), [("h200x4", "1.5", False), ("h200x2", "1.6", True)])
def test_a_promise_that_is_predicted_to_be_missed_is_warned_of(said, gpu_class, limit, warned):
    asked = EIGHT | {"constraints.gpu_classes": [gpu_class], "objectives[0].limit": limit}
    assert ('<p class="notice notice-warning">Predicted' in said(**asked)) == warned
    fp8 = {"constraints.precisions": ["bf16", "fp8"], "constraints.allow_unverified_quality": "on"}
    lower = said(**asked | fp8)
    assert '<p class="notice notice-warning">Predicted' not in lower
    assert "ms with megakernel in fp8 on" in lower


def test_the_load_that_is_put_on_is_said(said):
    poisson = {"traffic.arrivals.kind": "poisson", "traffic.arrivals.rate": "12.5"}
    for arrivals, words in (
        ({}, "up to 64 users at once."),
        (poisson, "up to 12.5 requests per second, 64 served at once at most."),
    ):
        assert f"Under load, before and after: {words}" in said(**{"load.most_users": "64"}, **arrivals)
    assert "Under load, before and after" not in said()
