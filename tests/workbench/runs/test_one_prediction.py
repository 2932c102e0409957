"""The form, the placement of a run and the run itself give the same prediction."""

import json
import re
from typing import Any

import pytest
import sample_runs
from django.utils import timezone

from workbench.intake.services.workloads import create_workload
from workbench.runs import services
from workbench.runs.models import Worker
from workbench.runs.run_queue import key_of
from workers.documents.workload import Workload as WorkloadDocument
from workers.harness.context import Context
from workers.prediction.predict import fastest
from workers.prediction.promises import floor_ms
from workers.stages import admit
from workers.wording.text import plain

pytestmark = pytest.mark.django_db
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
        (found,) = re.findall(rf"Predicted on {gpu_class} \(modelled, ([\w ]+)\): {FIGURE}", page)
        return found[1], found[0], page

    return ask


@pytest.mark.parametrize(
    ("case", "measured"),
    [
        (("llama-3.1-8b", "h200", "h200x2", ["bf16"]), True),
        (("llama-3.1-8b", "h100x2", "h100x4", ["bf16"]), True),
        (("llama-3.2-1b", "h200", "h200x2", ["bf16", "fp8"]), False),
    ],
)
def test_all_tell_one_figure(figure, organisation, engineer, tmp_path, case, measured) -> None:
    model, fewer, more, precisions = case
    if measured:
        sample_runs.run(organisation, engineer)
    for each in (fewer, more):
        Worker.objects.create(name=each, gpu_class=each, last_seen=timezone.now(), memory_gib=131.0)
    by = "by measured rates" if measured and fewer.startswith("h200") else "by the datasheet"
    found = figure(model, fewer, 900, precisions)
    assert found[1] == by
    limit = 0.99 * float(found[0])
    of_more, by_more, _ = figure(model, more, limit, precisions)
    assert by_more == by

    advice = figure(model, fewer, limit, precisions)[2]
    named = re.findall(
        r"(\d) GPUs that divide the model .* are predicted to take ([\d.]+) ms \(modelled, (.*?)\)", advice
    )
    assert [each[2] for each in named] == [by]
    assert more != f"{fewer.partition('x')[0]}x{named[0][0]}" or named[0][1] == of_more

    allowed = {"precisions": precisions, "gpu_classes": [fewer, more], "allow_unverified_quality": True}
    sla: dict[str, Any] = {"model": model, "objectives": [{"metric": "tpot", "limit": limit}], "constraints": allowed}
    workload = create_workload(organisation, engineer, WorkloadDocument.model_validate(sla))
    run = services.create_run(workload, engineer)
    assert run.gpu_class == more
    Worker.objects.filter(name=more).delete()
    why = f"On {fewer} the median TPOT is predicted to be {found[0]} ms (modelled, {by}); promised are at most"
    assert why in services.waiting_for(run)

    (tmp_path / "config.json").write_text(json.dumps(workload.model.facts.config))
    known = admit.run(services.stage_input(run, key_of(run)), Context(tmp_path, tmp_path, seconds=600))
    assert known.why_several.startswith(why)
    assert known.predicted is not None
    best = fastest(known.predicted.plans, workload.sla.objectives[0])
    assert best is not None
    assert plain(best[0]) == of_more
    assert floor_ms(workload.sla.objectives[0], workload.sla, workload.model.facts, fewer) < limit
