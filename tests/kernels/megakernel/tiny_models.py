"""Small decoders of every family, their prompts' caches, and what transformers makes of them."""

import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from kernels.megakernel.host.pack import pack
from kernels.megakernel.host.rank_models import RankModel, rank_models
from kernels.megakernel.host.uploads import uploads
from kernels.megakernel.program import Program, build_program
from kernels.megakernel.program.layout import Layout
from kernels.megakernel.program.ranks import shard_of
from kernels.megakernel.program.shape import shape_of
from kernels.megakernel.program.weights import FORMATS, MXFP4
from kernels.model.decoder import Decoder
from kernels.model.dense_families import rotary_order
from kernels.model.experts import experts_of
from kernels.model.rounding import Rounding, round_weights
from kernels.quant.absmax import quantise_absmax, values
from kernels.quant.formats import E4M3_MAX, FP8_LAYERS
from kernels.quant.quantised_matrix import STORED_ROWS
from tests.kernels.megakernel.interpreter.interpret import DecodeStart, SimulatedGpu

ARCHITECTURES = {
    "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "phi3": "Phi3ForCausalLM", "granite": "GraniteForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
    "glm4": "Glm4ForCausalLM", "smollm3": "SmolLM3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM", "olmoe": "OlmoeForCausalLM", "mixtral": "MixtralForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
}  # fmt: skip
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip

YARN = {
    "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 16,
}  # fmt: skip


def _config(
    family: str, hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, vocab: int, **others: Any
) -> dict[str, Any]:
    return {
        "model_type": family, "architectures": [ARCHITECTURES[family]], "hidden_size": hidden,
        "intermediate_size": intermediate, "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab, "tie_word_embeddings": True,
        "max_position_embeddings": 512,
    } | others  # fmt: skip


LOWER = [name for name in FORMATS if name != "bf16"]
"""The megakernel's precisions below 16 bits."""

MODELS = {
    # 14 query heads on 2, hidden no power of two, a vocabulary that ends inside a tile
    "llama": _config("llama", 112, 208, 14, 2, 64, 333, pad_token_id=0, rope_parameters=LLAMA3_ROPE),
    "llama-128": _config(
        "llama", 256, 1040, 2, 1, 128, 129, pad_token_id=0, tie_word_embeddings=False, rms_norm_eps=1e-5
    ),
    "llama-32": _config("llama", 96, 160, 6, 2, 32, 150, pad_token_id=0),
    "qwen2": _config("qwen2", 192, 176, 3, 1, 64, 200, pad_token_id=0),
    "qwen3": _config("qwen3", 80, 144, 4, 2, 128, 97, pad_token_id=0),
}
"""What the interpreter runs in a moment."""

NEAR: dict[str, dict[str, Any]] = {
    "phi3": _config("phi3", 128, 144, 2, 1, 64, 97, pad_token_id=0, tie_word_embeddings=False),
    "granite": _config("granite", 128, 144, 4, 2, 32, 97, pad_token_id=0, embedding_multiplier=12.0,
        residual_multiplier=0.22, attention_multiplier=0.0625, logits_scaling=8.0),
    "olmo2": _config("olmo2", 96, 160, 3, 3, 32, 97, pad_token_id=0),
    # a width whose root, which scales the embedding, is the same in bf16
    "gemma": _config("gemma", 144, 160, 2, 1, 256, 97, pad_token_id=0),
    "gemma3": _config("gemma3_text", 144, 160, 4, 1, 256, 97, pad_token_id=0, sliding_window=13,
        query_pre_attn_scalar=200, layer_types=["sliding_attention", "full_attention"]),
    "gemma2": _config("gemma2", 144, 160, 2, 1, 256, 97, pad_token_id=0, sliding_window=13, query_pre_attn_scalar=200,
        attn_logit_softcapping=1.5, final_logit_softcapping=2.0, attn_implementation="eager"),
    "glm4": _config("glm4", 128, 144, 4, 1, 32, 97, pad_token_id=0, tie_word_embeddings=False, eos_token_id=2),
    "smollm3": _config("smollm3", 128, 144, 4, 2, 32, 97, pad_token_id=0, no_rope_layer_interval=2),
    "llama-bias": _config("llama", 96, 160, 6, 2, 32, 150, pad_token_id=0, attention_bias=True),
    "qwen2-window": _config("qwen2", 128, 144, 4, 1, 64, 97, pad_token_id=0, use_sliding_window=True, sliding_window=13,
        layer_types=["sliding_attention", "full_attention"]),
}  # fmt: skip
"""Families and features near these, each for one path of the kernel."""

MIXTURES: dict[str, dict[str, Any]] = {
    # experts that are no multiple of 16, and chunks of down that lie in two experts
    "qwen3_moe": _config("qwen3_moe", 80, 144, 4, 2, 128, 97, moe_intermediate_size=48, num_experts=10,
        num_experts_per_tok=3, norm_topk_prob=True, pad_token_id=0),
    "olmoe": _config("olmoe", 96, 80, 3, 3, 32, 150, num_experts=20, num_experts_per_tok=4, norm_topk_prob=False,
        pad_token_id=0),
    "mixtral": _config("mixtral", 64, 96, 4, 1, 64, 120, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=None, pad_token_id=0),
    "gpt_oss": _config("gpt_oss", 128, 64, 8, 2, 32, 97, num_local_experts=10, num_experts_per_tok=3, sliding_window=13,
        pad_token_id=0, tie_word_embeddings=False, attn_implementation="eager", rope_theta=150000.0, rope_scaling=YARN),
}  # fmt: skip
"""The same with experts."""

RANKED: dict[str, Any] = {
    "qwen3_moe-of-4": MIXTURES["qwen3_moe"] | {"num_key_value_heads": 4, "moe_intermediate_size": 64},
    "mixtral-of-2": MIXTURES["mixtral"] | {"num_key_value_heads": 2},
    "gpt_oss-of-2": MIXTURES["gpt_oss"],
    "olmoe-of-2": MIXTURES["olmoe"] | {"intermediate_size": 96},
    # a vocabulary whose tiles do not divide by 4
    "llama-of-4": _config("llama", 96, 192, 8, 4, 32, 150, pad_token_id=0, rope_parameters=LLAMA3_ROPE),
    "qwen2-of-4": _config("qwen2", 80, 128, 4, 4, 64, 97, pad_token_id=0),
    "qwen3-of-2": _config("qwen3", 64, 160, 4, 2, 32, 70, pad_token_id=0, tie_word_embeddings=False),
}
"""Models that two or four GPUs may share."""

ON_GPU: dict[str, Any] = {"num_hidden_layers": 3, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096}
GPU_CONFIGS = {
    "llama": _config("llama", 512, 2048, 8, 2, 64, 4099, **ON_GPU),
    "llama-32": _config("llama", 256, 512, 8, 4, 32, 4096, **ON_GPU),
    "qwen2": _config("qwen2", 896, 4864, 14, 2, 64, 4099, **ON_GPU),
    "qwen3": _config("qwen3", 512, 2048, 16, 8, 128, 4099, **ON_GPU),
    "wide": _config("llama", 8192, 2048, 16, 4, 64, 4099, **ON_GPU),
}
"""Large enough that every SM of an H200 has work; with head_dim 32 half. `wide` slices its residual."""

GPU_NEAR = {
    "phi3": _config("phi3", 512, 2048, 8, 2, 64, 4099, pad_token_id=0, sliding_window=64, **ON_GPU),
    "granite": _config("granite", 512, 2048, 16, 4, 64, 4099, embedding_multiplier=12.0, residual_multiplier=0.22,
        attention_multiplier=0.015625, logits_scaling=8.0, **ON_GPU),
    "olmo2": _config("olmo2", 512, 2048, 8, 8, 64, 4099, **ON_GPU),
    "gemma": _config("gemma", 576, 2048, 8, 1, 256, 4099, **ON_GPU),
    "gemma2": _config("gemma2", 576, 2048, 4, 1, 256, 4099, sliding_window=64, query_pre_attn_scalar=256,
        attn_logit_softcapping=1.5, final_logit_softcapping=3.0, **ON_GPU),
    "glm4": _config("glm4", 512, 2048, 8, 2, 64, 4099, eos_token_id=2, **ON_GPU),
    "smollm3": _config("smollm3", 512, 2048, 8, 2, 64, 4099, no_rope_layer_interval=2, **ON_GPU),
    "gemma3": _config("gemma3_text", 576, 2048, 4, 1, 256, 4099, sliding_window=64, query_pre_attn_scalar=256,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], **ON_GPU),
}  # fmt: skip
"""Families near these, the first with a window."""

GPU_MIXTURES = {
    "qwen3_moe": _config("qwen3_moe", 512, 2048, 16, 4, 128, 4099, moe_intermediate_size=256, num_experts=40,
        num_experts_per_tok=4, norm_topk_prob=True, **ON_GPU),
    "olmoe": _config("olmoe", 512, 256, 8, 8, 64, 4099, num_experts=64, num_experts_per_tok=8, **ON_GPU),
    "gpt_oss": _config("gpt_oss", 576, 256, 16, 2, 64, 4099, num_local_experts=32, num_experts_per_tok=4,
        sliding_window=64, rope_theta=150000.0, rope_scaling=YARN | {"original_max_position_embeddings": 128},
        **ON_GPU),
}  # fmt: skip
"""The same with experts."""


def _made(name: str) -> Any:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**(MODELS | NEAR | MIXTURES | RANKED)[name]))


@cache
def model(name: str) -> Any:
    """The model in bf16, its biases and norms too drawn at random."""
    torch.manual_seed(7)
    made = _made(name).to(torch.bfloat16).eval()
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if key.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    return made


@torch.no_grad()
def own_copy(original: Any, weights: str) -> Any:
    """A copy of the model. For fp8_layers the matrices of its layers were stored in e4m3 with random scales of rows."""
    copied, chance = copy.deepcopy(original), torch.Generator().manual_seed(5)
    linear = [module for module in copied.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    for weight in (module.weight for module in linear if weights == FP8_LAYERS):
        drawn = 1 + torch.rand(len(weight), generator=chance).to(weight.device)
        scales = weight.abs().amax(dim=1).float() * drawn / E4M3_MAX
        codes = (weight.float() / scales[:, None]).to(torch.float8_e4m3fn)
        weight.copy_(codes.float() * scales[:, None])
        setattr(weight, STORED_ROWS, scales)
    return copied


@torch.no_grad()
def round_experts(*models: Any) -> None:
    """Gives the experts of each model the values that those of the first have in MXFP4."""
    for layers in zip(*(item.model.layers for item in models), strict=True):
        first, *others = (experts_of(each.config, layer.mlp) for each, layer in zip(models, layers, strict=True))
        for name in ("gate_up", "down"):
            own = getattr(first, name)
            own.copy_(values(quantise_absmax(own.flatten(0, 1), MXFP4.name)).view_as(own))
            for other in others:
                getattr(other, name).copy_(own)


@torch.no_grad()
def with_rounded_weights(
    original: Any, weights: str, method: str = "nearest", dtype: torch.dtype = torch.bfloat16
) -> Any:
    """A copy in `dtype` with the values that the matrices have in a lower precision; the embedding as it was."""
    lowered = own_copy(original, weights)
    if weights == MXFP4.name:
        round_experts(lowered)
        return lowered.to(dtype)
    rounded = round_weights(lowered, Decoder(lowered), weights, Rounding(method=method))
    lowered = lowered.to(dtype)
    if rounded.lm_head is not None:
        lowered.lm_head.weight = torch.nn.Parameter(rounded.lm_head.values(dtype), requires_grad=False)
    for layer, codes in zip(lowered.model.layers, rounded.layers, strict=True):
        attention, mlp = layer.self_attn, layer.mlp
        places = {
            "qkv": [attention.q_proj, attention.k_proj, attention.v_proj],
            "o": [attention.o_proj],
            "gate_up": [mlp.gate_proj, mlp.up_proj],
            "down": [mlp.down_proj],
        }
        for name, parts in places.items():
            rows = codes[name].values(dtype).split([len(part.weight) for part in parts])
            for part, own in zip(parts, rows, strict=True):
                part.weight.copy_(own)
    return lowered


@cache
def rounded_model(name: str, weights: str) -> Any:
    """The model in bf16 with weights of that precision."""
    return model(name) if weights == "bf16" else with_rounded_weights(model(name), weights)


@cache
def exact(name: str, weights: str = "bf16") -> Any:
    """The same weights in float32."""
    if weights != "bf16":
        return with_rounded_weights(model(name), weights, dtype=torch.float32).eval()
    return copy.deepcopy(model(name)).float().eval()


def program_of(name: str, **layout: Any) -> Program:
    """The model's program on 6 SMs unless `layout` says otherwise."""
    return programs_of(name, **layout)[0]


def programs_of(name: str, **layout: Any) -> list[Program]:
    """The same of every rank."""
    asked = Layout(**({"sms": 6, "splits": 4} | layout))
    shape = shard_of(shape_of(model(name).config.to_dict()), asked.tensor_parallel_size)
    return [build_program(shape, asked, rank) for rank in range(asked.tensor_parallel_size)]


@dataclass(frozen=True)
class Start:
    """A prompt's caches as `SimulatedGpu` wants them, and the token that follows, [batch]."""

    prompt: torch.Tensor
    keys: np.ndarray
    values: np.ndarray
    first: np.ndarray


@torch.no_grad()
def start(name: str, batch: int, length: int, capacity: int, weights: str = "bf16") -> Start:
    """A random prompt, its keys and values rounded to bf16. Rows beyond it are NaN, so that reading one shows."""
    reference = exact(name, weights)
    chance = torch.Generator().manual_seed(batch * 1000 + length)
    prompt = torch.randint(0, reference.config.vocab_size, (batch, length), generator=chance)
    out = reference(prompt, past_key_values=DynamicCache())  # which keeps what is beyond a window too
    caches, order = [], rotary_order(reference.config.to_dict())
    for part in ("keys", "values"):
        rows = torch.stack([getattr(layer, part) for layer in out.past_key_values.layers]).transpose(2, 3)
        padded = torch.full((*rows.shape[:2], capacity, *rows.shape[3:]), float("nan"))
        rows = rows if order is None or part == "values" else rows[..., order]
        padded[:, :, :length] = rows.to(torch.bfloat16).float()
        caches.append(padded.numpy())
    return Start(prompt, caches[0], caches[1], out.logits[:, -1].argmax(-1).numpy())


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """bf16 as uint16; everything else as it is."""
    tensor = tensor.detach().contiguous()
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


@cache
def arrays_of(name: str, layout: Layout, rank: int = 0) -> dict[str, np.ndarray]:
    """What is uploaded for the model's own program."""
    program = build_program(shard_of(shape_of(model(name).config.to_dict()), layout.tensor_parallel_size), layout, rank)
    own = models_of(name, layout.weights, layout.tensor_parallel_size)[rank]
    uploaded = uploads(own.model, program, 256, pack(Decoder(own.model), program, own.rounded))
    return {key: as_numpy(tensor) for key, tensor in uploaded.items()}


@cache
def models_of(name: str, weights: str, ranks: int) -> list[RankModel]:
    """The shards of a copy of the model, rounded to nearest."""
    return rank_models(own_copy(model(name), weights), [torch.device("cpu")] * ranks, weights, Rounding())


def gpu(name: str, program: Program, begin: Start, count: int, **options: Any) -> SimulatedGpu:
    """The interpreter with this program in place of the model's own; the weights are packed for the model's own."""
    arrays = arrays_of(name, replace(program.layout), program.rank) | {
        "program": np.concatenate(program.instructions),
        "program_start": program.starts,
    }
    whole = program.shape.kv_heads == begin.keys.shape[-2]
    first = 0 if whole else program.rank * program.shape.kv_heads
    heads = slice(first, first + program.shape.kv_heads)
    keys, values = begin.keys[..., heads, :].copy(), begin.values[..., heads, :].copy()
    context = DecodeStart(keys, values, begin.first, begin.prompt.shape[1])
    return SimulatedGpu(program, arrays, context, count, **options)


@torch.no_grad()
def logits_after(reference: Any, begin: Start, tokens: np.ndarray) -> np.ndarray:
    """What `reference` makes of the prompt, its first token and all but the last of `tokens` [count, batch]."""
    followed = torch.from_numpy(np.concatenate([begin.first[None], tokens[:-1]])).T
    out = reference(torch.cat([begin.prompt, followed], dim=1)).logits
    return out[:, begin.prompt.shape[1] :].transpose(0, 1).float().numpy()
