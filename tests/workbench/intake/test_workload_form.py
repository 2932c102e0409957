"""The form of a workload: what it fills in, keeps, adds, and reads from an SLA."""

import re
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from kernels import registry
from tests.workbench.intake.workload_documents import GOOD, fields, post
from workbench.intake.forms import templates
from workbench.intake.forms.workload import WorkloadForm, flatten
from workbench.intake.models import Workload
from workbench.runs.models import Run
from workers.documents.workload import Workload as WorkloadDocument


def test_a_run_starts_from_the_form_whose_document_is_that_of_the_api(api, browser, engineer):
    sent = fields(GOOD | {"present": {"latency_ms": 281, "gpu": "B200", "usd_per_hour": 5}}) | {"name": "Voice"}
    answer = browser(engineer).post("/workloads/new/", sent)
    run = Run.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/runs/{run.id}/")
    document = run.workload.sla
    assert (document.name, document.present.usd_per_hour, document.constraints.minutes) == ("Voice", 5, 6)
    browser(engineer).post("/workloads/new/", fields(GOOD))
    by_form, by_api = Workload.objects.get(name__startswith="llama"), post(api(engineer), GOOD).json()["id"]
    assert by_form.document == Workload.objects.get(id=by_api).document


@pytest.mark.parametrize(("name", "prompt", "objectives"), [("chat", 1024, 2), ("embedding", 256, 1)])
def test_a_template_keeps_the_rest(browser, engineer, name, prompt, objectives):
    sent = fields(GOOD) | {"name": "Mine", "do": f"template {name}"}
    page = browser(engineer).post("/workloads/new/", sent).content.decode()
    assert f'id="f-traffic-prompt-tokens" value="{prompt}"' in page
    assert ('id="f-load-most-users" value="128"' in page) == (name == "chat")
    assert ("objectives[1].limit" in page) == (objectives == 2)
    assert all(part in page for part in ('value="Mine"', '<option value="llama-3.2-1b" selected>'))
    assert not Workload.objects.exists()
    for template in templates.TEMPLATES.values():
        assert WorkloadDocument.model_validate(template.sla.model_dump() | {"model": "tiny-llama"})


def test_nothing_is_lost_on_an_error_and_objectives_are_added_and_removed_without_a_script(browser, engineer):
    sent = fields(GOOD) | {"objectives[0].limit": "soon", "name": "My <name>", "constraints.minutes": "7.5"}
    page = browser(engineer).post("/workloads/new/", sent).content.decode()
    for value in ("soon", "My &lt;name&gt;", "7.5"):
        assert f'value="{value}"' in page
    assert '<option value="llama-3.2-1b" selected>' in page
    client = browser(engineer)
    page = client.post("/workloads/new/", fields(GOOD) | {"do": "add"}).content.decode()
    assert 'name="objectives[1].limit"' in page
    two = fields(GOOD | {"objectives": [*GOOD["objectives"], {"metric": "tpot", "limit": 3}]})
    page = client.post("/workloads/new/", two | {"do": "remove 0"}).content.decode()
    field = 'name="objectives[0].limit" id="f-objectives-0-limit" value="3"'
    assert (field in page, "objectives[1]" in page) == (True, False)
    assert not Workload.objects.exists()


SLA = "traffic:\n  prompt_tokens: 99\nobjectives:\n  - {metric: ttft, percentile: 90, limit: 12}\n"


def test_an_sla_fills_the_form_and_counts_instead_of_the_fields(browser, engineer):
    sent = fields(GOOD) | {"do": "read", "sla_file": SimpleUploadedFile("sla.yaml", SLA.encode())}
    page = browser(engineer).post("/workloads/new/", sent).content.decode()
    assert 'name="traffic.prompt_tokens" id="f-traffic-prompt-tokens" value="99"' in page
    assert '<option value="llama-3.2-1b" selected>' in page
    browser(engineer).post("/workloads/new/", fields(GOOD) | {"sla": SLA})
    assert Workload.objects.get().sla.traffic.prompt_tokens == 99


@pytest.mark.parametrize(
    ("action", "text", "sentence"),
    [
        ("read", "objectives: [", "SLA: line 1, column 14: broken YAML"),
        ("start", '{"objectives": }', "SLA: line 1, column 16: broken JSON"),
        ("read", "a: 1\na: 2", "a is there twice"),
        ("start", "a: &x 1\nb: *x", "aliases are not taken"),
        ("read", f"a: [{'b,' * 6000}]", "more than 5,000 values"),
        ("start", SLA.replace("12", "-12"), "SLA: objectives[0].limit: should be greater than 0"),
        ("read", SLA + "speed: fast", "SLA: speed: is not a known field"),
        ("start", "just words", "SLA: an SLA is a mapping"),
    ],
)
def test_a_bad_sla_is_refused_beside_its_text(browser, engineer, text, sentence, action):
    answer = browser(engineer).post("/workloads/new/", fields(GOOD) | {"do": action, "sla": text})
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert sentence in page
    assert text.strip() in page
    assert not Workload.objects.exists()


def test_a_workload_is_run_again_copied_and_shown_as_it_was_asked(browser, engineer, account, api):
    browser(engineer).post("/workloads/new/", fields(GOOD))
    workload = Workload.objects.get()
    assert browser(account).post(f"/workloads/{workload.id}/run/").status_code == 403
    browser(engineer).post(f"/workloads/{workload.id}/run/")
    assert Run.objects.count() == 2
    page = browser(engineer).get(f"/workloads/new/?from={workload.id}").content.decode()
    assert '<option value="llama-3.2-1b" selected>' in page
    assert 'id="f-objectives-0-limit" value="100"' in page
    load = {"most_users": 24, "demand": {"users": 500}}
    loaded = post(api(engineer), GOOD | {"baseline_runner": "vllm", "load": load}).json()["id"]
    page = browser(engineer).get(f"/workloads/{loaded}/").content.decode()
    load, demand = ("<dt>Under load</dt><dd>up to 24 users at once</dd>", "<dt>To carry</dt><dd>500 users at once</dd>")
    assert all(words in page for words in (load, demand, "vLLM, under load alone; without load"))


def test_excluded_variants_come_by_form_and_api(browser, api, engineer):
    document = GOOD | {"constraints": {"exclude": ["megakernel"]}}
    assert post(api(engineer), document).json()["document"]["constraints"]["exclude"] == ["megakernel"]
    browser(engineer).post("/workloads/new/", fields(document))
    page = browser(engineer).get(f"/workloads/{Workload.objects.first().id}/").content.decode()  # type: ignore[union-attr]
    assert "<dt>Not to be used</dt><dd>megakernel</dd>" in page
    assert [item.sla.constraints.exclude for item in Workload.objects.all()] == [["megakernel"]] * 2
    form = browser(engineer).get("/workloads/new/").content.decode()
    choice = 'name="constraints.exclude" value="{}"'
    assert (choice.format("megakernel") in form, choice.format("eager") in form) == (True, False)
    assert all(words in form for words in (registry.variant("megakernel").summary, "All may be used"))


def test_an_open_loop_under_load_is_said_by_the_form(browser, engineer):
    sent = fields({"model": "tiny-llama", "objectives": [{"metric": "ttft", "limit": 500}]}) | {"load.most_users": "8"}
    sent |= {f"traffic.arrivals.{name}": value for name, value in (("kind", "gamma"), ("rate", "12.5"), ("cv", "2"))}
    assert browser(engineer).post("/workloads/new/", sent).status_code == 302
    row = Workload.objects.get()
    assert row.document["traffic"]["arrivals"] == {"kind": "gamma", "rate": 12.5, "cv": 2}
    copy = browser(engineer).get(f"/workloads/new/?from={row.pk}").content.decode()
    assert '<option value="gamma" selected>' in copy
    assert 'value="12.5"' in copy
    page = browser(engineer).post("/workloads/new/", sent | {"load.most_users": ""})
    assert page.status_code == 422
    assert "a run without load measures equal requests" in unescape(page.content.decode())


BEHAVIOUR = {
    "prompt_lengths": {"kind": "uniform", "low": 8, "high": 16},
    "output_lengths": {"kind": "log-normal", "median": 8, "sigma": 0.5, "most": 16},
    "arrivals": {"kind": "closed", "think_s": 2},
    "sampling": {"temperature": 0.7, "top_p": 0.9, "top_k": 40},
    "cancellations": {"share": 0.1, "after_tokens": 4},
    "shared_prefix": 4,
    "time_out_s": 30,
    "end_of_text": True,
}


def test_unequal_requests_and_how_they_end_are_said_by_the_form_and_kept_in_a_copy(browser, engineer):
    form = WorkloadForm.empty([], "tiny-llama")
    form.values |= flatten({"traffic": BEHAVIOUR, "load": {"most_users": 8}}) | {"objectives[0].metric": "ttft"}
    form.values.pop("objectives[0].n")
    sent = {name: "on" if value is True else value for name, value in form.values.items() if value is not False}
    assert form.filled["behaviour"]
    assert not WorkloadForm.empty([]).filled["behaviour"]
    answer = browser(engineer).post("/workloads/new/", sent)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    stored = Workload.objects.get().document["traffic"]
    assert {name: stored[name] for name in BEHAVIOUR} == BEHAVIOUR
    copy = browser(engineer).get(f"/workloads/new/?from={Workload.objects.get().pk}").content.decode()
    for name, value in (("cancellations.share", "0.1"), ("prompt_lengths.low", "8"), ("sampling.top_p", "0.9")):
        assert re.search(f'name="traffic.{name}"[^>]* value="{value}"', copy), name


def test_what_describes_a_kind_that_was_not_chosen_is_not_left_out_in_silence(browser, engineer):
    sent = fields(GOOD) | {"traffic.prompt_lengths.low": "8", "traffic.arrivals.kind": "closed"}
    page = browser(engineer).post("/workloads/new/", sent | {"traffic.arrivals.rate": "5"})
    assert page.status_code == 422
    text = unescape(page.content.decode())
    assert 'id="f-traffic-prompt-lengths-kind-error">is required with the fields beside it<' in text
    assert 'id="f-traffic-arrivals-rate-error">is not a known field<' in text
    assert all(f'value="{typed}"' in text for typed in ("8", "5"))
    assert not Workload.objects.exists()


TYPED = {
    "name": "My own",
    "quality_text": "what callers say\nand hear",
    "endpoint.model": "ours",
    "present.gpu": "B200",
}


def _holds(page: str, typed: dict[str, str]) -> bool:
    """Whether each input of the page holds what was typed into it."""
    texts = {name: f'name="{name}"[^>]*(?: value="{value}"|>\\s*{value}</textarea>)' for name, value in typed.items()}
    return all(re.search(pattern, unescape(page)) for pattern in texts.values())


def test_what_was_typed_stays_where_an_sla_or_a_file_says_nothing_of_it(browser, engineer):
    client, sent = browser(engineer), fields(GOOD) | TYPED
    page = client.post("/workloads/new/", sent | {"do": "read", "sla": SLA}).content.decode()
    assert _holds(page, TYPED | {"traffic.prompt_tokens": "99"})
    page = client.post("/workloads/new/", sent | {"do": "read", "sla": f"name: Theirs\n{SLA}"}).content.decode()
    assert _holds(page, TYPED | {"name": "Theirs"})
    for name, typed in (("sla_file", {"sla": SLA}), ("quality_text_file", {"quality_text": "what callers say"})):
        twice = sent | typed | {name: SimpleUploadedFile("other.txt", b"name: other")}
        answer = client.post("/workloads/new/", twice)
        assert answer.status_code == 422
        assert "there is text here, and a file was chosen as well" in answer.content.decode()
        assert _holds(answer.content.decode(), {each: text.strip() for each, text in typed.items()})
    page = client.post("/workloads/new/", sent | {"do": "add"}).content.decode()
    advanced = page.partition("<summary>Advanced")[0].rpartition("<details")[2]
    assert " open" in advanced, "what was typed there stays in sight"


def test_a_form_outlives_its_login_without_scripts(engineer):
    client, sent = Client(enforce_csrf_checks=True), fields(GOOD) | TYPED | {"endpoint.key": "hush", "do": "start"}
    out = client.post("/workloads/new/", sent)
    assert out.status_code == 401
    assert _holds(out.content.decode(), TYPED)
    assert "hush" not in out.content.decode()
    assert client.post("/workloads/new/", sent, headers={"HX-Request": "true"}).content == b""
    client.force_login(engineer)
    stale = client.post("/workloads/new/", sent)
    assert stale.status_code == 403
    assert _holds(stale.content.decode(), TYPED)
    assert "Nothing you entered is lost, except for files: send it again." in stale.content.decode()
    shown = client.post("/workloads/new/", sent | {"do": "show"})
    assert shown.status_code == 200
    assert _holds(shown.content.decode(), TYPED)
    assert not Workload.objects.exists()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown.content.decode())
    assert token
    fresh = client.post("/workloads/new/", fields(GOOD) | {"csrfmiddlewaretoken": token[1]})
    assert fresh.status_code == 302


@pytest.mark.parametrize(
    ("objectives", "shown"),
    [
        (
            [{"metric": "ttf_n", "n": 900, "percentile": 50, "limit": 100}],
            'id="f-objectives-0-n-error">TTF900 p50 asks for token 900, but an answer has 64',
        ),
        (
            [{"metric": "ttft", "percentile": 50, "limit": value} for value in (5, 6)],
            'id="f-objectives-1-metric-error">TTFT p50 is promised twice; remove one of them',
        ),
        ([], '<p class="error">'),
    ],
)
def test_a_wrong_objective_is_told_once_beside_its_input(browser, engineer, objectives, shown):
    answer = browser(engineer).post("/workloads/new/", fields(GOOD | {"objectives": objectives}))
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "One field needs a correction" in page
    assert shown in page.partition('id="h-general"')[0]
    assert "<ul>" not in page.partition('id="form-errors"')[2].partition("</div>")[0], "nothing is told twice"
