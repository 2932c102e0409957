"""Plans for several GPUs: what they may say, who reads them, and what refuses them."""

import json
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from kernels import runners
from kernels.hardware import GPUS
from kernels.megakernel.variant import Megakernel
from kernels.ops import ModelCase
from kernels.plan import Plan
from kernels.runners import by_name
from tests.kernels.runners import parts_runner
from tests.kernels.runners.engine_models import CONFIGS, load

EAGER: dict[str, Any] = {"runner": "eager"}
GRAPHS: dict[str, Any] = {"runner": "compiled", "options": {"compile": False}}


def plan(**given: Any) -> Plan:
    return Plan(**{"model_digest": "0" * 64, "gpu": "h200", "runner": "megakernel"} | given)


def test_a_plan_for_one_gpu_is_written_as_before_and_one_for_two_says_so() -> None:
    assert "tensor_parallel_size" not in json.loads(plan().model_dump_json())
    assert plan(tensor_parallel_size=2).model_dump()["tensor_parallel_size"] == 2
    in_turn = plan(tensor_parallel_size=2, placement="pipeline_parallel", **EAGER)
    assert "placement" not in plan(tensor_parallel_size=2).model_dump()
    assert in_turn.model_dump()["placement"] == "pipeline_parallel"
    for each in (plan(), plan(tensor_parallel_size=4), in_turn):
        assert Plan.model_validate_json(each.model_dump_json()) == each


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tensor_parallel_size": 3}, "Input should be 1, 2 or 4"),
        ({"tensor_parallel_size": 2, "runner": "kernels"}, "tensor_parallel_size: kernels runs on one GPU, not on 2"),
        ({"tensor_parallel_size": 2, "placement": "pipeline_parallel"}, "layers run in turn by the runner eager"),
        ({"placement": "pipeline_parallel", **EAGER}, "by the runner eager on several GPUs alone"),
        ({"tensor_parallel_size": 2, "options": {"devices": [0, 0]}}, "the option devices names GPUs already"),
    ],
)
def test_what_no_runner_can_do_is_no_plan(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        plan(**given)


def test_a_machine_with_fewer_gpus_refuses_the_plan() -> None:
    model = load("llama", seed=0)
    with pytest.raises(ValueError, match=r"4 GPUs are wanted, and \d can be seen here"):
        runners.apply(model, plan(tensor_parallel_size=4, gpu="cpu"))


def test_a_plan_for_several_gpus_runs_a_model_in_as_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", parts_runner.NAME)
    parts = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu", tensor_parallel_size=2)
    assert isinstance(runners.apply(parts, plan(tensor_parallel_size=2)), parts_runner.PartsRunner)
    eager, graphs = (runners.apply(parts, plan(tensor_parallel_size=2, **of)) for of in (EAGER, GRAPHS))
    prompt = torch.arange(3, 12)[None]
    assert eager.generate(prompt, 5).tokens == graphs.generate(prompt, 5).tokens
    with pytest.raises(ValueError, match="Inductor compiles no model that is divided"):
        runners.apply(parts, plan(tensor_parallel_size=2, runner="compiled"))
    with pytest.raises(ValueError, match="tensor_parallel_size: the plan is for 1, and the model comes in 2 parts"):
        runners.apply(parts, plan())


def test_a_plan_of_layers_in_turn_runs_the_model_so() -> None:
    in_turn = plan(tensor_parallel_size=2, placement="pipeline_parallel", **EAGER)
    model = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu", **in_turn.sizes)
    assert all(hasattr(layer, "_hf_hook") for layer in model.model.layers)
    whole = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu")
    prompt = torch.arange(3, 12)[None]
    found, expected = (
        runners.apply(each, of).generate(prompt, 5).tokens for each, of in ((model, in_turn), (whole, plan(**EAGER)))
    )
    assert found == expected


def test_a_model_is_loaded_whole_only_where_its_rounding_needs_that() -> None:
    assert [plan(tensor_parallel_size=gpus).parts for gpus in (1, 2, 4)] == [1, 2, 4]
    rounded = {"weights": "fp8", "rounding": {"method": "nearest"}}
    assert plan(tensor_parallel_size=2, options=rounded).parts == 2
    assert plan(tensor_parallel_size=2, options=rounded | {"rounding": {"method": "gptq"}}).parts == 1
    assert plan(tensor_parallel_size=2, options={"rounding": "gptq"}).parts == 2  # the runner says what is wrong


@pytest.mark.parametrize(("gpus", "said"), [(None, None), (2, None), (4, None), (3, "gpus is 3")])
def test_the_variant_says_on_how_many_gpus_it_runs(gpus: int | None, said: str | None) -> None:
    case = ModelCase(model="m", batch=1, prompt=8, tokens=8, gpus=gpus)
    refusal = Megakernel().serves(case, GPUS["h200"])
    assert (refusal is None) if said is None else (refusal is not None and said in refusal.reason)
