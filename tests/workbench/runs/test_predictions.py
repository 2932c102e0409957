"""Predictions: where a run goes by them, the one figure that all places tell, and their known errors."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import sample_bring_up
import sample_runs
from django.urls import reverse
from django.utils import timezone

from tests.workers.prediction.test_feasibility import model
from workbench.intake.services.ceilings import known_ceilings
from workbench.intake.services.workloads import create_workload
from workbench.results.templatetags.predictions import error_words
from workbench.runs import services
from workbench.runs.models import Run, Worker
from workbench.runs.run_queue import key_of
from workbench.runs.workers import greet
from workers.documents.worker_api import Hello
from workers.documents.workload import Workload as WorkloadDocument
from workers.harness.context import Context
from workers.prediction.feasibility import floor_ms
from workers.prediction.predict import fastest
from workers.stages import admit
from workers.wording.text import plain

NONE_YET = "On NVIDIA H200 no run has yet compared what was predicted with what was measured."


def test_the_error_is_that_of_the_organisations_runs_on_the_gpu(organisation, engineer, foreigner):
    assert error_words(organisation, "h200") == NONE_YET
    sample_runs.run(organisation, engineer)
    result = sample_runs.run(organisation, engineer)
    assert "over 4 figures of 2 runs." in error_words(organisation, "h200")
    assert error_words(organisation, "h200x4") == error_words(organisation, "h200")
    assert error_words(organisation, "h100") == NONE_YET.replace("H200", "H100")
    assert error_words(foreigner.memberships.get().organisation, "h200") == NONE_YET
    predicted = result.stages.get(stage="report").result["predicted"]
    assert [item["label"] for item in predicted] == ["TTF64 p50", "TPOT p50"]


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


def test_a_workloads_page_has_cost_against_latency_also_of_other_classes(browser, organisation, engineer, foreigner):
    done = sample_runs.run(organisation, engineer)
    facts = done.workload.model
    facts.manifest = model().model_dump(mode="json") | {"digest": facts.digest}
    facts.save()
    address = reverse("workload", args=[done.workload_id])
    page = browser(engineer).get(address).content.decode()
    rows = ("<td>compiled, CUDA graphs (verified)</td>", "<td>megakernel, bf16</td>")
    assert all(part in page for part in ("Cost against latency", *rows, NONE_YET.replace("H200", "H100")))
    assert NONE_YET not in page  # of the H200 there is a run, so none of its points is modelled
    assert browser(foreigner).get(address).status_code == 404


SENTENCE = r"llama-3.2-1b needs 3\.\d GiB for weights, KV cache and working memory; the largest running worker, "


def _worker(gpu_class: str, memory_gib: float | None, name: str = "gpu-0@host") -> None:
    greet(Hello(worker=name, gpu_classes=[gpu_class], memory_gib=memory_gib))


def test_a_model_that_fits_no_living_worker_is_refused(workload, engineer):
    _worker("h200", 2.5)
    _worker("cpu", 2, "gpu-cpu-0@host")
    with pytest.raises(services.RunError, match=SENTENCE + r"of class h200, has 2\.5 GiB") as refused:
        services.create_run(workload, engineer)
    assert refused.value.field == "model"
    assert not Run.objects.exists()
    Worker.objects.update(last_seen=timezone.now() - timedelta(minutes=5))
    run = services.create_run(workload, engineer)
    assert services.waiting_for(run) == "Waiting for a worker of class h200."
    _worker("h200", None)
    assert services.create_run(workload, engineer).gpu_class == "h200", "one that does not tell has its datasheet's"


def test_the_largest_living_worker_counts_and_its_class_is_chosen(workload, engineer):
    _worker("h200", 2.5)
    _worker("cpu", 64, "gpu-cpu-0@host")
    assert services.create_run(workload, engineer).gpu_class == "cpu"
    with pytest.raises(services.RunError, match=SENTENCE):
        services.create_run(workload, engineer, "h200")


def test_a_promise_that_no_chip_of_the_class_can_keep_is_refused_before_it_waits(workload, engineer):
    workload.document["objectives"] = [{"metric": "ttf_n", "n": 64, "limit": 5}]
    workload.save()
    with pytest.raises(services.RunError, match=r"TTF64 p50 of 5\.00 ms is impossible on NVIDIA H200: .* least 33 ms"):
        services.create_run(workload, engineer, "h200")
    assert not Run.objects.exists()
    assert services.create_run(workload, engineer, "cpu").gpu_class == "cpu"


@pytest.fixture
def of_8b(organisation, engineer):
    """`of_8b(classes)`: a workload of the 8B model that promises a token every 1.5 ms, or within another limit, and
    allows these classes.
    """

    def made(classes: list[str], limit: float = 1.5) -> Any:
        sla = {
            "model": "llama-3.1-8b",
            "objectives": [{"metric": "tpot", "limit": limit}],
            "constraints": {"precisions": ["bf16"], "gpu_classes": classes},
        }
        return create_workload(organisation, engineer, WorkloadDocument.model_validate(sla))

    return made


@pytest.mark.parametrize(
    ("limit", "chosen"), [(1.5, "h200x4"), (1.6, "h200x4"), (1.9, "h200x2"), (3.2, "h200x2"), (3.6, "h200")]
)
def test_it_goes_to_as_many_as_are_predicted_to_keep_it(of_8b, engineer, limit, chosen):
    """By their floors two GPUs could make a token in 1.57 ms, one in 3.13; 1.81 and 3.47 are predicted."""
    for name in ("h200", "h200x2", "h200x4"):
        _worker(name, 140, f"{name}@host")
    assert services.create_run(of_8b(["h200", "h200x2", "h200x4"], limit), engineer).gpu_class == chosen


def test_it_does_not_wait_for_more_gpus_where_a_worker_might_keep_it(of_8b, engineer):
    _worker("h200x2", 140, "pair@host")
    assert services.create_run(of_8b(["h200", "h200x2", "h200x4"], 1.6), engineer).gpu_class == "h200x2"


def test_it_waits_for_them_and_goes_to_no_worker_of_fewer(of_8b, engineer):
    _worker("h200", 140)
    run = services.create_run(of_8b(["h200", "h200x4"]), engineer)
    sentence = (
        "Waiting for a worker of class h200x4. TPOT p50 of 1.50 ms is impossible on NVIDIA H200: it takes at least 3"
    )
    assert services.waiting_for(run).startswith(sentence)
    _worker("h200x2", 140, "pair@host")
    run.refresh_from_db()
    assert run.gpu_class == "h200x4"
    with pytest.raises(services.RunError, match="impossible on NVIDIA H200: it takes at least 3"):
        services.create_run(of_8b(["h200", "h200x4"]), engineer, "h200")


FIGURE = r"the median TPOT is ([\d.]+) ms with (\w+) in (\w+)"


@pytest.fixture
def figure(browser, engineer):
    """`figure(model, gpu_class, limit, precisions)`: the predicted median TPOT that the form tells, as it is written,
    with what it is by, and the whole page.
    """
    client = browser(engineer)

    def ask(model: str, gpu_class: str, limit: float, precisions: list[str]) -> tuple[str, str, str]:
        form = {
            "model": model,
            "objectives[0].metric": "tpot",
            "objectives[0].limit": str(limit),
            "objectives[0].percentile": "50",
            "constraints.gpu_classes": [gpu_class],
            "constraints.precisions": precisions,
            "constraints.allow_unverified_quality": "on",
        }
        page = client.post("/workloads/new/check/", form).content.decode()
        (result,) = re.findall(rf"Predicted on {gpu_class} \(modelled, ([\w ]+)\): {FIGURE}", page)
        return result[1], result[0], page

    return ask


@pytest.mark.parametrize(
    ("case", "measured"),
    [
        (("llama-3.1-8b", "h200", "h200x2", ["bf16"]), True),
        (("llama-3.1-8b", "h100x2", "h100x4", ["bf16"]), True),
        (("llama-3.2-1b", "h200", "h200x2", ["bf16", "fp8"]), False),
    ],
)
def test_all_tell_one_figure(figure, organisation, engineer, tmp_path, case, measured):
    model, fewer, more, precisions = case
    if measured:
        sample_runs.run(organisation, engineer)
    for value in (fewer, more):
        Worker.objects.create(name=value, gpu_class=value, last_seen=timezone.now(), memory_gib=131.0)
    by = "by measured rates" if measured and fewer.startswith("h200") else "by the datasheet"
    predicted = figure(model, fewer, 900, precisions)
    assert predicted[1] == by
    limit = 0.99 * float(predicted[0])
    of_more, by_more, _ = figure(model, more, limit, precisions)
    assert by_more == by

    advice = figure(model, fewer, limit, precisions)[2]
    named = re.findall(
        r"(\d) GPUs that divide the model .* are predicted to take ([\d.]+) ms \(modelled, (.*?)\)", advice
    )
    assert [item[2] for item in named] == [by]
    assert more != f"{fewer.partition('x')[0]}x{named[0][0]}" or named[0][1] == of_more

    allowed = {"precisions": precisions, "gpu_classes": [fewer, more], "allow_unverified_quality": True}
    sla: dict[str, Any] = {"model": model, "objectives": [{"metric": "tpot", "limit": limit}], "constraints": allowed}
    workload = create_workload(organisation, engineer, WorkloadDocument.model_validate(sla))
    run = services.create_run(workload, engineer)
    assert run.gpu_class == more
    Worker.objects.filter(name=more).delete()
    why = f"On {fewer} the median TPOT is predicted to be {predicted[0]} ms (modelled, {by}); promised are at most"
    assert why in services.waiting_for(run)

    (tmp_path / "config.json").write_text(json.dumps(workload.model.facts.config))
    known = admit.run(services.stage_input(run, key_of(run)), Context(tmp_path, tmp_path, seconds=600))
    assert known.why_several.startswith(why)
    assert known.predicted is not None
    best = fastest(known.predicted.plans, workload.sla.objectives[0])
    assert best is not None
    assert plain(best[0]) == of_more
    assert floor_ms(workload.sla.objectives[0], workload.sla, workload.model.facts, fewer) < limit
