"""The kernels runner: any mix of variants gives the model's own logits, and prompts of any length their own tokens."""

import gc
import weakref
from typing import Any

import pytest
import torch

from kernels import registry
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariant, BoundVariants
from kernels.model.decoder import Decoder, refusal
from kernels.ops import AttentionCase, GatedCase, LinearCase, LmHeadCase, RmsNormCase, StepAttentionCase
from kernels.plan import PlannedOp
from kernels.runners.base import prompt_length
from kernels.runners.eager import EagerRunner
from kernels.runners.kernels_runner import check_chosen
from tests.kernels.runners.engine_models import COMPACT, CONFIGS, SIZES
from tests.kernels.runners.planned_models import applied, load, planned


def linear(m: int, n: int, k: int, epilogue: str) -> PlannedOp:
    case = LinearCase(m=m, n=n, k=k, dtype="fp32", weights="fp32", epilogue=epilogue)  # type: ignore[arg-type]
    return planned(case, "torch_linear")


FURTHER = {
    "gemma3-windows": CONFIGS["gemma3"] | {"layer_types": ["sliding_attention"] * 3},
    "olmo3": {"model_type": "olmo3", "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "seed_oss": {"model_type": "seed_oss", "head_dim": 32},
    "ministral": {"model_type": "ministral", "head_dim": 16, "sliding_window": 8},
    "ernie4_5": {"model_type": "ernie4_5"},
    "glm": {"model_type": "glm", "head_dim": 16},
    "exaone4-whole": {"model_type": "exaone4", "sliding_window": None, "layer_types": ["full_attention"] * 4},
}


@pytest.mark.parametrize("name", [*COMPACT, *FURTHER])
def test_logits_and_tokens_are_those_of_transformers(name: str, random_ids: torch.Tensor) -> None:
    model = load(SIZES | {"num_hidden_layers": 4} | FURTHER[name] if name in FURTHER else name)
    assert refusal(model) is None
    eager, runner = EagerRunner(model), applied(model, [])
    runner.prepare(2, 20, 12)
    assert runner.generate(random_ids[:, :20], 12).tokens == eager.generate(random_ids[:, :20], 12).tokens
    expected = eager.logits(random_ids)
    torch.testing.assert_close(runner.logits(random_ids), expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("qkv", "out", "gate_up"),
    [
        ("rmsnorm_scale", "none", "rmsnorm_scale_swiglu"), ("none", "residual", "rmsnorm_scale_swiglu"),
        ("none", "none", "swiglu"), ("rmsnorm_scale", "residual", "none"), ("none", "residual", "rmsnorm_scale"),
    ],
)  # fmt: skip
def test_any_mix_of_forms_gives_the_same_logits(qkv: str, out: str, gate_up: str, random_ids: torch.Tensor) -> None:
    model = load("qwen3")
    wide = 160 if "swiglu" in gate_up else 320
    ops = []
    for m in (1, 20):
        ops += [linear(m, 256, 64, qkv), linear(m, 64, 128, out), linear(m, wide, 64, gate_up)]
        ops.append(linear(m, 64, 160, out if m == 1 else "none"))
    expected = EagerRunner(model).logits(random_ids)
    runner = applied(model, ops)
    runner.prepare(1, 20, 16)
    torch.testing.assert_close(runner.logits(random_ids), expected, atol=5e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["qwen2", "llama-bias"])
def test_biases_are_added_in_fused_products(name: str, random_ids: torch.Tensor) -> None:
    model = load(name)
    ops = [linear(1, 128, 64, "rmsnorm_scale_bias"), linear(1, 320, 64, "rmsnorm_scale_bias")]
    expected = EagerRunner(model).logits(random_ids)
    runner = applied(model, ops)
    runner.prepare(1, 20, 16)
    torch.testing.assert_close(runner.logits(random_ids), expected, atol=5e-4, rtol=1e-3)


def test_every_planned_op_is_built_and_called(random_ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = {"head_dim": 16, "heads": 4, "kv_heads": 2}
    cases: list[Any] = [
        RmsNormCase(m=20, n=64, residual=True, dtype="fp32"),
        GatedCase(m=20, n=160, dtype="fp32"),
        LmHeadCase(m=1, vocab=300, k=64, dtype="fp32", weights="fp32"),
        AttentionCase(kind="prefill", batch=1, q_len=20, kv_len=20, dtype="fp32", kv_dtype="fp32", **heads),
    ]
    names = ["torch_rmsnorm", "torch_gated", "torch_lm_head", "sdpa_math"]
    called: list[str] = []
    for name in names:
        variant = registry.variant(name)
        monkeypatch.setattr(variant, "build", recording(called, name, variant.build))
    model = load("llama")
    expected = EagerRunner(model).generate(random_ids[:1, :20], 6).tokens
    runner = applied(model, [planned(*pair) for pair in zip(cases, names, strict=True)])
    assert runner.generate(random_ids[:1, :20], 6).tokens == expected
    assert set(called) == set(names)


def recording(called: list[str], name: str, build: Any) -> Any:
    def built(case: Any, params: dict[str, Any]) -> Any:
        function = build(case, params)

        def call(*arguments: Any, **kwargs: Any) -> Any:
            called.append(name)
            return function(*arguments, **kwargs)

        return call

    return built


def test_a_longer_context_gets_a_larger_cache(random_ids: torch.Tensor) -> None:
    model = load("llama")
    runner = applied(model, [])
    runner.prepare(1, 10, 4)
    assert runner.generate(random_ids[:1], 120).tokens == EagerRunner(model).generate(random_ids[:1], 120).tokens


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_the_step_between_two_products_can_be_one_variant(name: str, random_ids: torch.Tensor) -> None:
    model = load(name)
    window = CONFIGS[name].get("sliding_window")
    case = StepAttentionCase(batch=1, heads=4, kv_heads=2, head_dim=16, kv_len=30, window=window, dtype="fp32")
    runner = applied(model, [planned(case, "torch_step_attention")])
    runner.prepare(2, 20, 12)
    names = [bound.variant.name for bound in runner._variants._found.values() if bound]
    assert names.count("torch_step_attention") == 1
    assert runner.generate(random_ids[:, :20], 12).tokens == EagerRunner(model).generate(random_ids[:, :20], 12).tokens
    torch.testing.assert_close(runner.logits(random_ids), EagerRunner(model).logits(random_ids), atol=2e-4, rtol=1e-4)


def test_lossy_weights_are_seen_in_the_logits(random_ids: torch.Tensor) -> None:
    model = load("llama")
    expected = EagerRunner(model).logits(random_ids[:1])
    case = LinearCase(m=1, n=128, k=64, dtype="fp32", weights="int8")
    runner = applied(model, [planned(case, "int8_dynamic_cpu")])
    runner.prepare(1, 20, 4)
    difference = (runner.logits(random_ids[:1, :20]) - expected[:, :20]).abs().amax(dim=-1)[0]
    assert float(difference[10:].min()) > 1e-3  # the case is planned for steps and near prompts alike
    assert float(difference.max()) < 1.0


@pytest.mark.parametrize(
    ("length", "served", "lossy", "read"),
    [(192, 128, False, 128), (192, 128, True, 96), (128, 128, False, 64), (192, 0, False, 96), (1, 0, False, 1)],
)
def test_both_a_prompts_pass_and_steps_are_judged(length: int, served: int, lossy: bool, read: int) -> None:
    assert prompt_length(length, served, lossy) == read


def test_a_head_that_chooses_wrongly_is_found(random_ids: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits do not come from the head, so that a wrong head would not show in them."""
    variant = registry.variant("torch_lm_head")
    monkeypatch.setattr(variant, "build", lambda case, params: lambda x, w: (x @ w.T).argmin(dim=-1))
    case = LmHeadCase(m=1, vocab=300, k=64, dtype="fp32", weights="fp32")
    runner = applied(load("llama"), [planned(case, "torch_lm_head")])
    runner.prepare(1, 20, 4)
    with pytest.raises(RuntimeError, match="7 of 7 tokens that the head chose are not the best"):
        runner.logits(random_ids[:1])


@pytest.mark.parametrize("token", [-1, 300])
def test_a_token_outside_the_vocabulary_is_found(token: int) -> None:
    logits = torch.randn(1, 2, 300)
    best = logits.argmax(-1)
    check_chosen(logits, best)
    best[0, 1] = token
    with pytest.raises(RuntimeError, match="1 of 2 tokens"):
        check_chosen(logits, best)


def test_each_weight_is_packed_once_unchanged_ones_are_views_and_closing_lets_them_go(random_ids: torch.Tensor) -> None:
    model = load("llama", own_norms=False)
    runner = applied(model, [linear(1, 128, 64, "rmsnorm_scale")])
    runner.generate(random_ids[:1, :20], 2)
    packed = {held[0].data_ptr() for held in runner._variants._packed.values()}
    own = {layer.qkv[0].data_ptr() for layer in Decoder(model).layers}
    assert own <= packed
    runner = applied(load("llama"), [linear(1, 128, 64, "rmsnorm_scale")])
    runner.generate(random_ids[:1, :20], 2)
    folded = [weakref.ref(held[0]) for held in runner._variants._packed.values() if held[2] is not None]
    assert folded
    runner.close()
    gc.collect()
    assert all(item() is None for item in folded)


def part(variant: str, params: dict[str, Any], **fields: Any) -> BoundVariant:
    case = LinearCase(**{"m": 64, "n": 64, "k": 512} | fields)
    return BoundVariant(registry.variant(variant), case, params, lambda: None, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (part("gemm_hopper", {}, n=32, epilogue="swiglu"), part("gemm_hopper", {}), False),
        (part("gemm_hopper", {}), part("gemm_hopper", {}, m=256, epilogue="residual"), True),
        (part("skinny", {}, m=1, n=32, epilogue="swiglu"), part("skinny", {}, m=1), False),
        (part("skinny", {"k_warps": 4}, m=1), part("skinny", {"k_warps": 8}, m=1), False),
        (part("skinny", {"splits": 1, "k_warps": 8}, m=1), part("skinny", {"splits": 1, "k_warps": 8}, m=9), True),
        (part("skinny", {}, m=1), part("skinny", {"pdl": True, "l2_prefetch": 64}, m=1), True),
    ],
)
def test_only_calls_that_read_the_same_layout_share_a_packed_weight(one, other, shared):
    """One weight may be packed for a gated product and a plain one, or for a step of one row and of nine."""
    weight = torch.randn(64, 512).bfloat16()
    variants = BoundVariants([], GPUS["h200"])
    first, second = variants.pack(one, weight), variants.pack(other, weight)
    assert (len(variants._packed) == 1) is shared
    for held, each in ((first, one), (second, other)):
        torch.testing.assert_close(held, each.variant.pack(each.case, each.params, weight), rtol=0, atol=0)


LONG_ROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0 + at / 8 for at in range(48)],
    "long_factor": [4.0 + at for at in range(48)],
    "rope_theta": 10000.0,
}


def test_longrope_rotates_by_the_length_of_the_whole_request() -> None:
    """As transformers' pass over the whole sequence does, and not its generation. Heads of 96, as Phi-3-mini has."""
    heads = {"hidden_size": 192, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config = SIZES | heads | {"model_type": "phi3", "original_max_position_embeddings": 256, "rope_scaling": LONG_ROPE}
    model = load(config)
    runner, eager = applied(model, []), EagerRunner(load(config))
    ids = torch.randint(3, 300, (1, 262), generator=torch.Generator().manual_seed(1))
    for length in (250, 262, 250):
        torch.testing.assert_close(runner.logits(ids[:, :length]), eager.logits(ids[:, :length]), atol=2e-4, rtol=1e-4)
    for tokens in (6, 7):
        answer = runner.generate(ids[:, :250], tokens).tokens[0]
        sequence = torch.cat((ids[:, :250], torch.tensor([answer])), dim=1)
        assert eager.logits(sequence)[0, 249:-1].argmax(-1).tolist() == answer
