"""Which models the megakernel serves, and how it refuses the others."""

import pytest

from kernels import registry
from kernels.hardware import GPUS
from kernels.megakernel.program.shape import Unsupported, shape_of
from kernels.megakernel.program.weights import FORMATS
from kernels.model_files.catalogue import entry, names
from kernels.ops import ModelCase
from kernels.quant.formats import FP8_LAYERS
from kernels.runners.whole_model import WholeModel
from tests.kernels.megakernel.published import CONFIGS

REFUSED = {"tiny-gpt2", "tiny-bert", "tiny-striped-hyena", "striped-hyena-150m"}


LONG_ROPE = {"model_type": "phi3", "rope_scaling": {"type": "longrope"}}
WINDOWED = {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True}
MIXTURE = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}


def test_it_serves_the_catalogue_but_for_other_families_by_their_bytes() -> None:
    refused = set()
    for name in names():
        try:
            shape_of(entry(name)[0])
        except Unsupported:
            refused.add(name)
    assert refused == REFUSED
    assert shape_of(CONFIGS["llama-3.2-1b"]).step_bytes == 2_471_493_632  # 1,235,746,816 weights in matrices
    mixture = shape_of(entry("qwen3-30b-a3b")[0])
    assert (mixture.intermediate, mixture.expert_size) == (6144, 768)
    assert mixture.step_bytes == 6_083_313_664  # 3.35 billion weights less the embedding


@pytest.mark.parametrize("name", CONFIGS)
def test_it_serves_what_it_promises(name: str) -> None:
    shape, config = shape_of(CONFIGS[name]), CONFIGS[name]
    assert shape.qkv_bias == (config["model_type"] in ("qwen2", "gpt_oss"))
    assert shape.sinks == shape.out_bias == shape.expert_bias == (config["model_type"] == "gpt_oss")
    assert shape.qk_norm == (config["model_type"] in ("qwen3", "qwen3_moe", "olmoe", "gemma3_text"))
    assert shape.whole_norm == (config["model_type"] == "olmoe")
    assert shape.qkv_rows == (shape.heads + 2 * shape.kv_heads) * shape.head_dim


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2': the megakernel serves llama"),
        ({"model_type": "granite", "logits_scaling": 13}, "logits_scaling 13.0 is no power of two"),
        ({"model_type": "phi3", "rope_scaling": {"type": "dynamic"}}, "rope_type 'dynamic'"),
        (LONG_ROPE | {"original_max_position_embeddings": 8192}, "original_max_position_embeddings 8192"),
        ({"model_type": "smollm3", "no_rope_layers": [1, 0] + [1] * 14}, "no_rope_layers are not every n-th layer"),
        ({"num_experts": 8}, "llama with 8 experts"),
        ({"model_type": "qwen3_moe", "num_experts": 0}, "qwen3_moe with 0 experts"),
        (MIXTURE | {"num_experts": 512}, "512 experts: the megakernel serves up to 256"),
        (MIXTURE | {"num_experts_per_tok": 9, "num_experts": 8}, "num_experts_per_tok 9 of 8"),
        (MIXTURE | {"moe_intermediate_size": 40}, "moe_intermediate_size 40"),
        (MIXTURE | {"mlp_only_layers": [0]}, "mlp_only_layers"),
        (MIXTURE | {"decoder_sparse_step": 2}, "decoder_sparse_step"),
        (MIXTURE | {"model_type": "olmoe", "clip_qkv": 8.0}, "clip_qkv 8.0"), ({"head_dim": 96}, "head_dim 96"),
        ({"num_key_value_heads": 5}, "num_key_value_heads 5"), ({"hidden_size": 2056}, "hidden_size 2056"),
        ({"intermediate_size": 8200}, "intermediate_size 8200"), ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        (WINDOWED | {"max_window_layers": 1}, "sliding_window 64: the megakernel serves it in all layers"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_feature(change: dict, named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        shape_of(CONFIGS["llama-3.2-1b"] | change)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"model_type": "gemma2"}, {"score_cap": 50.0, "logit_cap": 30.0, "norm_after": True, "full_every": 0}),
        ({"model_type": "gemma3_text", "final_logit_softcapping": 20.0}, {"score_cap": 0.0, "logit_cap": 20.0}),
        ({"model_type": "smollm3"}, {"unrotated_every": 4, "two_ropes": True, "window": 0}),
        ({"model_type": "exaone4", "sliding_window": 64}, {"unrotated_every": 4, "full_every": 4, "qk_norm": True}),
        ({"model_type": "exaone4", "sliding_window": None}, {"unrotated_every": 0, "norm_before": False}),
        ({"model_type": "olmo3", "sliding_window": 64}, {"whole_norm": True, "full_every": 4, "two_ropes": True}),
        ({"model_type": "seed_oss", "attention_bias": True}, {"qkv_bias": True, "norm_after": False}),
        ({"attention_bias": True}, {"qkv_bias": True, "out_bias": True, "expert_bias": False}),
        ({"model_type": "glm4", "attention_bias": True}, {"qkv_bias": True, "norm_before": True}),
        ({"model_type": "ministral", "sliding_window": 64}, {"window": 64, "full_every": 0}),
        (LONG_ROPE | {"original_max_position_embeddings": 4096}, {"two_ropes": False}),
    ],
)
def test_a_description_says_what_the_family_has(change: dict, fields: dict) -> None:
    shape = shape_of(CONFIGS["llama-3.2-1b"] | change)
    assert {name: getattr(shape, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("change", "window", "first"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, (4096, 0), [4, 4]),
        (WINDOWED, (64, 0), [4036, 4036]),
        (WINDOWED | {"use_sliding_window": False}, (0, 0), [0, 0]),
        (WINDOWED | {"layer_types": ["sliding_attention", "full_attention"] * 8}, (64, 2), [4036, 0]),
    ],
)
def test_a_window_is_that_of_all_layers_or_all_but_every_nth(change: dict, window: tuple, first: list) -> None:
    shape = shape_of(CONFIGS["llama-3.2-1b"] | change)
    assert (shape.window, shape.full_every) == window
    assert [shape.first_key(layer, 4099) for layer in range(2)] == first


NAMES = {name: "megakernel" if name == "bf16" else f"megakernel_{name}" for name in FORMATS if name != FP8_LAYERS}
"""Of every precision that a plan names."""


def case(weights: str, batch: int = 1) -> ModelCase:
    return ModelCase(model="llama-3.2-1b", weights=weights, batch=batch, prompt=128, tokens=64)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", NAMES)
def test_each_serves_its_own_precision(weights: str) -> None:
    variant = registry.variant(NAMES[weights])
    assert isinstance(variant, WholeModel)
    assert variant.lossy == (weights != "bf16")
    assert variant.options.get("weights", "bf16") == variant.weights == weights
    for other in NAMES:
        assert (variant.serves(case(other), GPUS["h200"]) is None) == (other == weights)
    assert all(variant.serves(case(weights, batch), GPUS["h200"]) is None for batch in range(1, 9))
    for refusal, named in (
        (variant.serves(case(weights, batch=9), GPUS["h200"]), "batch is 9"),
        (variant.serves(case(weights), GPUS["a100"]), "Hopper"),
    ):
        assert named in refusal.reason
