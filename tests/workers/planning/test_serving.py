"""What a verified plan says to its server."""

import pytest

from kernels.model.decoder import MODEL_TYPES
from kernels.model_files import catalogue
from kernels.plan import Plan
from tests.workers.conftest import stage_input
from workers.documents.model import ModelManifest
from workers.planning.serving import serving_of


def plan(**fields) -> Plan:
    return Plan(**{"model_digest": "", "gpu": "cpu", "runner": "kernels", "dtype": "fp32"} | fields)


def test_a_server_leaves_out_what_the_workload_excludes_and_takes_plans_in_integers() -> None:
    result = []
    for exclude in ([], ["megakernel"], ["small_gemm", "flash_hopper"], ["kernels"]):
        document = stage_input("verify", constraints={"exclude": exclude})
        serving, reason = serving_of(plan(), document)
        assert bool(reason) == (serving is None)
        result.append((serving.megakernel_up_to, serving.exclude) if serving else None)
    assert result == [(None, []), (0, []), (None, ["small_gemm"]), None]
    for runner, weights in (("kernels", "int8"), ("megakernel", "int8"), ("megakernel", "int4_minimum")):
        serving, reason = serving_of(plan(runner=runner, options={"weights": weights}), stage_input("verify"))
        assert serving
        assert reason == ""


def model(name: str, **fields) -> ModelManifest:
    return stage_input("verify").model.model_copy(update={"config": catalogue.entry(name)[0], **fields})


EXCLUDES = stage_input("verify", constraints={"exclude": ["kernels"]})


@pytest.mark.parametrize(
    ("document", "made", "said"),
    [
        (EXCLUDES, plan(), "The workload excludes kernels, of which"),
        (stage_input("verify"), plan(options={"weights": "fp8"}), "The plan rounds weights; "),
        (
            stage_input("verify", model("tiny-gpt2")),
            plan(),
            f"model_type 'gpt2' is not one of {', '.join(MODEL_TYPES)}.",
        ),
        (stage_input("verify", model("tiny-bert", kind="encoder")), plan(), "The model generates no text"),
    ],
)
def test_why_a_plan_is_not_served_is_said_by_its_own_reason(document, made: Plan, said: str) -> None:
    serving, reason = serving_of(made, document)
    assert serving is None
    assert said in reason
