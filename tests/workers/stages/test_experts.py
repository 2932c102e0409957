"""A mixture of experts through the stages on the CPU: it gets a result, and floors count the experts that are read."""

import json

import pytest

from kernels.engine.loading import skeleton
from kernels.model_files import catalogue
from kernels.plan import Plan
from tests.workers.conftest import manifest, stage_input
from workers.documents.stages import Results
from workers.harness.context import Context
from workers.planning import kernels_plan
from workers.planning.serving import serving_of
from workers.stages import admit, baseline, compose, price, profile, verify

pytestmark = pytest.mark.usefixtures("known_ceilings")
CONFIG = catalogue.entry("tiny-qwen3-moe")[0]
CHOSEN, HIDDEN, INNER, LAYERS = 2, 128, 96, 4


@pytest.fixture(scope="module")
def results(tmp_path_factory, known_ceilings) -> Results:
    root, found = tmp_path_factory.mktemp("experts"), Results()
    (root / "config.json").write_text(json.dumps(CONFIG))
    stages = {"admit": admit, "baseline": baseline, "profile": profile, "compose": compose, "verify": verify}
    for name, stage in (stages | {"price": price}).items():
        context = Context(root, root / name, seconds=60)
        context.artifacts.mkdir()
        document = stage_input(name, manifest(CONFIG), found, constraints={"exclude": ["compiled"]})
        found = found.model_copy(update={name: stage.run(document, context)})
    return found


def test_it_gets_a_result_with_a_verdict(results: Results) -> None:
    assert next(each for each in results.compose.trials if each.label == "eager").gate == "pass"
    assert [each.verdict for each in results.verify.outcomes] == ["met"]
    assert results.price is not None


def test_floors_count_the_experts_that_have_rows(results: Results) -> None:
    rows = {(row.op, row.phase): row for row in results.profile.rows}
    step = rows["experts (Qwen3MoeExperts) _grouped_mm", "decode"]
    steps = 7
    weights = CHOSEN * 3 * INNER * HIDDEN
    activations = CHOSEN * (HIDDEN + 2 * INNER + INNER + HIDDEN)
    assert step.calls == 2 * LAYERS * steps
    assert step.least_bytes == pytest.approx(4 * LAYERS * steps * (weights + activations))
    assert step.flops == pytest.approx(2 * LAYERS * steps * weights)
    assert "8 experts" in step.shapes


def test_a_kernels_plan_is_made_of_it_and_never_in_lower_precision() -> None:
    document, model = stage_input("compose", manifest(CONFIG), gpu_class="h200"), skeleton(CONFIG, "bf16")
    assert kernels_plan.composes(document, model)
    wanted = {(case.rows, case.n, case.k) for case in kernels_plan.cases(document) if case.op == "grouped"}
    assert wanted == {(CHOSEN * tokens, n, k) for tokens in (1, 64) for n, k in ((192, 128), (128, 96))}
    assert "not held in lower precision" in kernels_plan.unrounded(model).reason


def test_the_server_takes_a_plan_of_it() -> None:
    document = stage_input("verify", manifest(CONFIG))
    found, why = serving_of(Plan(model_digest="", gpu="cpu", runner="kernels", dtype="fp32"), document)
    assert found is not None, why
