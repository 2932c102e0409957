"""Plans put their variants into the model, whatever runs it."""

import json
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from kernels import registry, runners
from kernels.hardware import GPUS
from kernels.megakernel.variant import Megakernel
from kernels.ops import AttentionCase, LinearCase, ModelCase
from kernels.plan import Plan, PlannedOp
from kernels.runners import by_name
from kernels.runners.eager import EagerRunner
from kernels.runners.planned import PlannedLinear
from tests.kernels.runners import sharded_runner
from tests.kernels.runners.engine_models import CONFIGS, load

UNCOMPILED = {"compile": False}


def plan(runner: Any, ops: list[PlannedOp]) -> Plan:
    return Plan(model_digest="", gpu="cpu", runner=runner, dtype="fp32", options=UNCOMPILED, ops=ops)


def int8(n: int, k: int, m: int) -> PlannedOp:
    case = LinearCase(m=m, n=n, k=k, dtype="fp32", weights="int8")
    return PlannedOp(op="linear", case=case.model_dump(), variant="int8_dynamic_cpu")


@pytest.mark.parametrize(("runner", "name"), [("eager", "gemma3"), ("compiled", "llama-bias")])
def test_a_lossy_linear_is_used_at_every_length(runner: str, name: str, random_ids: torch.Tensor) -> None:
    """Quality is judged on other lengths than were planned for: the variant has to be there as well."""
    expected = EagerRunner(load(name)).logits(random_ids)
    applied = runners.apply(load(name), plan(runner, [int8(160, 64, m=1)]))
    applied.prepare(1, 20, 16)
    difference = (applied.logits(random_ids) - expected).abs().amax(dim=(0, 2))
    assert difference.min() > 1e-3
    assert difference.max() < 1.0


def test_each_planned_matrix_is_packed_once(random_ids: torch.Tensor) -> None:
    model = load("llama")
    runner = runners.apply(model, plan("compiled", [int8(160, 64, m=1), int8(160, 64, m=20)]))
    runner.prepare(1, 20, 16)
    runner.generate(random_ids[:1, :20], 16)
    assert len(runner._linear.variants._packed) == 2 * len(model.model.layers)  # type: ignore[attr-defined]


def test_each_call_gets_the_weight_in_its_own_layout_and_its_own_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = registry.variant("skinny")
    seen: dict[tuple[int, str], tuple[torch.Tensor, dict[str, int]]] = {}

    def build(case: LinearCase, params: dict[str, int]) -> Any:
        def call(x: torch.Tensor, w: tuple[torch.Tensor], bias: torch.Tensor | None) -> torch.Tensor:
            assert (bias is not None) == case.adds_bias
            seen[case.m, case.epilogue] = w[0], params
            return x.new_zeros(len(x), case.n)

        return call

    monkeypatch.setattr(variant, "build", build)
    planned = [(LinearCase(m=1, n=64, k=512), {"k_warps": 4}), (LinearCase(m=9, n=64, k=512), {"k_warps": 8})]
    ops = [PlannedOp(op="linear", case=case.model_dump(), variant="skinny", params=params) for case, params in planned]
    linear, weight = PlannedLinear(ops, GPUS["h200"]), torch.randn(64, 512).bfloat16()
    for rows, bias in ((1, None), (9, None), (9, torch.zeros(64).bfloat16()), (2, None)):
        assert linear(torch.zeros(rows, 512).bfloat16(), weight, bias).shape == (rows, 64)
    assert {at: params["k_warps"] for at, (_, params) in seen.items()} == {
        (1, "none"): 4, (9, "none"): 8, (9, "bias"): 8, (2, "none"): 4,
    }  # fmt: skip
    for packed, params in seen.values():
        assert torch.equal(packed, variant.pack(planned[0][0], params, weight)[0])


@pytest.mark.parametrize(("runner", "name"), [("eager", "gpt2"), ("compiled", "llama")])
def test_planned_attention_is_called_and_changes_nothing(runner, name, random_ids, monkeypatch):
    variant = registry.variant("sdpa_math")
    built: list[AttentionCase] = []
    build = variant.build
    monkeypatch.setattr(variant, "build", lambda case, params: built.append(case) or build(case, params))
    case = AttentionCase(
        kind="prefill", head_dim=16, heads=4, kv_heads=2, batch=1, q_len=20, kv_len=20, dtype="fp32", kv_dtype="fp32"
    )
    expected = EagerRunner(load(name)).generate(random_ids[:, :20], 8).tokens
    planned = PlannedOp(op="attention", case=case.model_dump(), variant="sdpa_math")
    applied = runners.apply(load(name), plan(runner, [planned]))
    applied.prepare(2, 20, 8)
    assert applied.generate(random_ids[:, :20], 8).tokens == expected
    assert {(attention_case.q_len, attention_case.kv_len) for attention_case in built} == {(20, 20)}


def test_whole_model_variants_say_what_they_cannot_do() -> None:
    case = ModelCase(model="tiny-llama", batch=4, prompt=8, tokens=8)
    able, refused = registry.offers(case, GPUS["cpu"])
    assert [item.name for item in able] == ["eager", "compiled"]
    assert {"compiled_tuned", "cuda_graphs", "kernels", "megakernel", "vllm"} <= set(refused)
    assert registry.variant("compiled_tuned").serves(case, GPUS["h200"]).reason.startswith("batch is 4")  # type: ignore[union-attr]


class Recorder:
    """In place of a runner that needs a GPU."""

    def __init__(self, model: Any, options: dict[str, Any], variants: Any) -> None:
        self.options, self.variants = options, variants


def test_a_megakernel_is_given_the_plans_ops_for_its_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.runners.by_name.RUNNERS", {"megakernel": f"{__name__}.Recorder"})
    case = AttentionCase(kind="prefill", head_dim=16, heads=4, kv_heads=2, batch=1, q_len=64, kv_len=64)
    op = PlannedOp(op="attention", case=case.model_dump(), variant="sdpa_flash")
    given: Any = runners.apply(load("llama"), plan("megakernel", [op]))
    assert given.options == UNCOMPILED
    assert given.variants.planned(case).variant.name == "sdpa_flash"
    without: Any = runners.apply(load("llama"), plan("megakernel", []))
    assert not without.variants


EAGER: dict[str, Any] = {"runner": "eager"}
GRAPHS: dict[str, Any] = {"runner": "compiled", "options": {"compile": False}}


def plan_of(**kwargs: Any) -> Plan:
    return Plan(**{"model_digest": "0" * 64, "gpu": "h200", "runner": "megakernel"} | kwargs)


def test_a_plan_says_on_how_many_gpus_it_runs_in_how_many_shards() -> None:
    assert "tensor_parallel_size" not in json.loads(plan_of().model_dump_json())
    assert plan_of(tensor_parallel_size=2).model_dump()["tensor_parallel_size"] == 2
    in_turn = plan_of(tensor_parallel_size=2, placement="pipeline_parallel", **EAGER)
    assert "placement" not in plan_of(tensor_parallel_size=2).model_dump()
    assert in_turn.model_dump()["placement"] == "pipeline_parallel"
    for value in (plan_of(), plan_of(tensor_parallel_size=4), in_turn):
        assert Plan.model_validate_json(value.model_dump_json()) == value
    assert [plan_of(tensor_parallel_size=gpus).shards for gpus in (1, 2, 4)] == [1, 2, 4]
    rounded = {"weights": "fp8", "rounding": {"method": "nearest"}}
    assert plan_of(tensor_parallel_size=2, options=rounded).shards == 2
    assert plan_of(tensor_parallel_size=2, options=rounded | {"rounding": {"method": "gptq"}}).shards == 1
    assert plan_of(tensor_parallel_size=2, options={"rounding": "gptq"}).shards == 2  # the runner says what is wrong


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
        plan_of(**given)


def test_a_machine_with_fewer_gpus_refuses_the_plan() -> None:
    model = load("llama", seed=0)
    with pytest.raises(ValueError, match=r"4 GPUs are wanted, and \d can be seen here"):
        runners.apply(model, plan_of(tensor_parallel_size=4, gpu="cpu"))


def test_a_plan_for_several_gpus_runs_a_model_in_as_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(by_name.RUNNERS, "megakernel", sharded_runner.NAME)
    shards = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu", tensor_parallel_size=2)
    assert isinstance(runners.apply(shards, plan_of(tensor_parallel_size=2)), sharded_runner.ShardedRunner)
    eager, graphs = (runners.apply(shards, plan_of(tensor_parallel_size=2, **of)) for of in (EAGER, GRAPHS))
    prompt = torch.arange(3, 12)[None]
    assert eager.generate(prompt, 5).tokens == graphs.generate(prompt, 5).tokens
    with pytest.raises(ValueError, match="Inductor compiles no model that is sharded"):
        runners.apply(shards, plan_of(tensor_parallel_size=2, runner="compiled"))
    with pytest.raises(ValueError, match="tensor_parallel_size: the plan is for 1, and the model comes in 2 shards"):
        runners.apply(shards, plan_of())


def test_a_plan_of_layers_in_turn_runs_the_model_so() -> None:
    in_turn = plan_of(tensor_parallel_size=2, placement="pipeline_parallel", **EAGER)
    model = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu", **in_turn.sizes)
    assert all(hasattr(layer, "_hf_hook") for layer in model.model.layers)
    whole = runners.load(None, CONFIGS["llama"], generated=True, dtype="fp32", device="cpu")
    prompt = torch.arange(3, 12)[None]
    result, expected = (
        runners.apply(each, of).generate(prompt, 5).tokens for each, of in ((model, in_turn), (whole, plan_of(**EAGER)))
    )
    assert result == expected


@pytest.mark.parametrize(("gpus", "said"), [(None, None), (2, None), (4, None), (3, "gpus is 3")])
def test_the_variant_says_on_how_many_gpus_it_runs(gpus: int | None, said: str | None) -> None:
    case = ModelCase(model="m", batch=1, prompt=8, tokens=8, gpus=gpus)
    refusal = Megakernel().serves(case, GPUS["h200"])
    assert (refusal is None) if said is None else (refusal is not None and said in refusal.reason)
