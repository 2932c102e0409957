"""The model that a GGUF file's metadata describes, as config.json has it, and its tensors by transformers' names."""

import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kernels.model_files.architectures import mappings
from kernels.model_files.config import value
from kernels.model_files.errors import ModelRefused
from kernels.model_files.families import FAMILIES, Mixture, attention_shape
from kernels.model_files.gguf import GgufHeader
from kernels.model_files.headers import Tensor

ARCHITECTURES = {
    "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gemma": "gemma",
    "gemma2": "gemma2", "gemma3": "gemma3_text", "phi3": "phi3", "granite": "granite", "olmoe": "olmoe",
    "smollm3": "smollm3", "gpt-oss": "gpt_oss",
}  # fmt: skip
"""The architectures that are taken, and transformers' model type of each; Mixtral is a `llama` with experts."""
FIELDS = {
    "context_length": "max_position_embeddings", "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size", "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "rope.freq_base": "rope_theta",
    "attention.key_length": "head_dim", "expert_used_count": "num_experts_per_tok",
}  # fmt: skip
"""Fields of config.json by their keys in GGUF, below the architecture's name."""
WINDOW = {"attention.sliding_window": "sliding_window"}
EXPERTS = {"expert_count": "num_experts"}
OWN_FIELDS = {
    "llama": {"rope.dimension_count": "head_dim", "expert_count": "num_local_experts"},
    "qwen3moe": EXPERTS | {"expert_feed_forward_length": "moe_intermediate_size"},
    "gemma2": WINDOW, "gemma3": WINDOW, "phi3": WINDOW, "olmoe": EXPERTS,
    "gpt-oss": WINDOW | {"expert_count": "num_local_experts"},
    "granite": {
        "attention.scale": "attention_multiplier", "embedding_scale": "embedding_multiplier",
        "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
    },
}  # fmt: skip
TOKEN_FIELDS = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
"""GGUF's names of special tokens, and transformers'."""
ROPE_BASE = 10000.0
"""Where a file states none, whatever transformers' default for the family is."""
_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CASED = r"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]{}[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]{}"
_CASED += r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPLITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpt-2", "olmo"), (_GPT2,)),
    **dict.fromkeys(("smollm", "refact"), (r"\p{N}", _GPT2)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe"), (rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}",)),
    "gpt-4o": ("|".join((_CASED.format("*", "+"), _CASED.format("+", "*"), rf"\p{{N}}{{1,3}}|{_O200K_REST}")),),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), (rf"{_LETTERS}|\p{{N}}|{_REST}",)),
}
"""The published expressions that split text before byte-level BPE, by GGUF's names of them."""
ROTARY_FACTORS = "rope_freqs.weight"
LONG_FACTORS = {f"rope_factors_{name}.weight": f"{name}_factor" for name in ("long", "short")}
"""Of Phi-3: those of sequences that are longer than it was first trained for, and of others."""
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}
SCALE_OF_27B = {("gemma2", 46): 144, ("gemma3", 62): 168}
"""`query_pre_attn_scalar`, which GGUF does not store: of Gemma's largest models, by their layers. Others have 256."""
QUERY_SCALE = 256
YARN_FIELDS = {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"}
MIN_FACTOR, MAX_FACTOR = 0.999, 1e6
CLOSE = 1e-4
"""Relative difference of rotary factors in float32."""


def config_of(header: GgufHeader, file: str, path: Path) -> dict[str, Any]:
    """The model's config.json. `path` is where the content lies. Raises ModelRefused for an architecture that is not
    taken, and for metadata that contradict the tensors.
    """
    metadata = header.metadata
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        supported = ", ".join(ARCHITECTURES)
        shown = "".join(c for c in str(name)[:40] if c.isprintable())
        raise ModelRefused(file, "general.architecture", f"GGUF files of {shown!r} are not taken, only of {supported}")
    if metadata.get("split.count", 1) not in (0, 1):
        reason = "the file is one part of several; merge them with `llama-gguf-split --merge` first"
        raise ModelRefused(file, "split.count", reason)
    experts = metadata.get(f"{name}.expert_count")
    model_type = "mixtral" if name == "llama" and experts else ARCHITECTURES[name]
    if experts and FAMILIES[model_type].mixture is None:
        raise ModelRefused(file, f"{name}.expert_count", f"GGUF files of {name!r} with experts are not taken")
    architecture = mappings()["MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"][model_type]
    config: dict[str, Any] = {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16"}
    config["rope_theta"] = ROPE_BASE
    fields = {f"{name}.{key}": field for key, field in (OWN_FIELDS.get(name, {}) | FIELDS).items()}
    fields |= {f"tokenizer.ggml.{key}_token_id": f"{field}_token_id" for key, field in TOKEN_FIELDS.items()}
    for key, field in fields.items():
        if (number := metadata.get(key)) is not None:
            if not isinstance(number, (int, float)):
                raise ModelRefused(file, key, "must be one number")
            config[field] = number
    by_name = {tensor.name: tensor for tensor in header.tensors}
    embedding = by_name.get("token_embd.weight")
    if embedding is None:
        raise ModelRefused(file, "token_embd.weight", "the file lacks this tensor")
    config["vocab_size"] = embedding.shape[0]
    config["tie_word_embeddings"] = "output.weight" not in by_name
    if name in ("llama", "granite") and "blk.0.attn_q.bias" in by_name:
        config["attention_bias"] = True
    _add_constants(name, config)
    if scaling := _rope_scaling(name, metadata, file):
        config["rope_scaling"] = scaling
    if name == "phi3":
        _add_long_rope(config, metadata, by_name, file, path)
    elif ROTARY_FACTORS in by_name:
        config["rope_scaling"] = _llama3_scaling(config, by_name[ROTARY_FACTORS], file, path)
    if {tensor.dtype for tensor in header.tensors if "_exps.weight" in tensor.name} == {"MXFP4"}:
        config["dequantised_from"] = {"quant_method": "mxfp4"}
    _check_tokens(metadata, config, file)
    return config


def _add_constants(name: str, config: dict[str, Any]) -> None:
    """Fields that a GGUF file of the architecture means without saying so."""
    if name in ("gemma2", "gemma3"):
        layers = value(config, "layers") or 0
        config["query_pre_attn_scalar"] = SCALE_OF_27B.get((name, layers), QUERY_SCALE)
    if name == "qwen3moe":
        config["norm_topk_prob"] = True
    if name == "granite":
        config.setdefault("attention_multiplier", max(1, attention_shape(config)[2]) ** -0.5)
    if name == "phi3" and not config.get("sliding_window"):
        config["sliding_window"] = None


class GgufWeight(NamedTuple):
    """A weight as the model has it, and the tensors that it is made of: two of the gate and the up projections."""

    tensor: Tensor
    parts: tuple[Tensor, ...]


def named(header: GgufHeader, config: dict[str, Any], file: str) -> dict[str, GgufWeight]:
    """The weights by transformers' names. Raises ModelRefused for a tensor that the model does not have, and for
    a mixture's experts and routers that are missing or misshapen.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # it brings numpy, which web processes do not need

    layers = config["num_hidden_layers"]
    arch = next(key for key, name in MODEL_ARCH_NAMES.items() if name == header.metadata["general.architecture"])
    names, family = get_tensor_name_map(arch, layers), FAMILIES[config["model_type"]]
    factors = LONG_FACTORS.keys() if config["model_type"] == "phi3" else {ROTARY_FACTORS}
    left = {tensor.name: tensor for tensor in header.tensors if tensor.name not in factors}
    weights: dict[str, GgufWeight] = {}
    for name, shape in [*((family.prefix + name, shape) for name, shape in family.shapes(config)), (family.head, ())]:
        stored = [f"{names.get_name(stem)}.{kind}" for stem, kind in _stored_as(name)]
        parts = tuple(left.pop(item) for item in stored if item in left)
        if family.mixture is not None and ".mlp." in name:
            _check_experts(parts, stored, stored_shape(name, shape, family.mixture), file)
            weights[name] = GgufWeight(replace(parts[0], shape=shape), parts)
        elif parts:
            weights[name] = GgufWeight(parts[0], parts)
    if surplus := next(iter(left), None):
        raise ModelRefused(file, surplus[:100], f"the tensor is none of a {config['model_type']} model's")
    return weights


def _stored_as(name: str) -> list[tuple[str, str]]:
    """The names that gguf's table knows for the tensors of a weight, and what each holds."""
    stem, kind = name, "weight"  # experts and sinks
    if name.endswith((".weight", ".bias")):
        stem, _, kind = name.rpartition(".")
    elif name.endswith("_bias"):
        stem, kind = name.removesuffix("_bias"), "bias"
    if stem.endswith(".experts.gate_up_proj"):
        return [(stem.replace("gate_up", half), kind) for half in ("gate", "up")]
    return [(stem, kind)]


def stored_shape(name: str, shape: tuple[int, ...], mixture: Mixture) -> tuple[int, ...]:
    """The shape in GGUF of each tensor of experts: outputs before inputs, gate and up apart."""
    if mixture.biased and len(shape) == 3:
        shape = (shape[0], shape[2], shape[1])
    return (shape[0], shape[1] // 2, *shape[2:]) if "gate_up" in name else shape


def _check_experts(parts: tuple[Tensor, ...], stored: list[str], shape: tuple[int, ...], file: str) -> None:
    if missing := [name for name in stored if name not in {part.name for part in parts}]:
        raise ModelRefused(file, missing[0], "the metadata imply this tensor of a mixture, but the file lacks it")
    for part in parts:
        if part.shape != shape:
            raise ModelRefused(
                file, part.name, f"the shape is {list(part.shape)}, but the metadata imply {list(shape)}"
            )


def has_tokenizer(header: GgufHeader) -> bool:
    """Whether the file holds a tokenizer that is known."""
    return bool(header.metadata.get("tokenizer.ggml.tokens")) and not unknown_tokenizer(header)


def unknown_tokenizer(header: GgufHeader) -> str:
    """The sentence on a tokenizer that is not known; "" without one."""
    tokens, model, splits = (
        str(header.metadata.get(f"tokenizer.ggml.{key}", "")) for key in ("tokens", "model", "pre")
    )
    if not tokens or model == "llama" or (model == "gpt2" and splits in SPLITS):
        return ""
    shown = "".join(c for c in f"{model} {splits}"[:60] if c.isprintable())
    return (
        f"Its tokenizer ({shown}) is not known, so it is left out; known are llama, and gpt2 with {', '.join(SPLITS)}."
    )


def _rope_scaling(name: str, metadata: dict[str, Any], file: str) -> dict[str, Any] | None:
    key = f"{name}.rope.scaling"
    if name == "granite" and metadata.get(f"{key}.finetuned") is False:
        raise ModelRefused(file, f"{key}.finetuned", "GGUF files of 'granite' that rotate nothing are not taken")
    kind, factor = metadata.get(f"{key}.type", "none"), metadata.get(f"{key}.factor", 1.0)
    supported = {"phi3": "longrope", "gpt-oss": "yarn"}.get(name, "linear or yarn")
    if (kind == "none" or (kind == "linear" and factor == 1)) and name != "gpt-oss":  # without, transformers scales
        return None
    if kind not in supported.split(" or ") or type(factor) is not float or not factor > 0:
        raise ModelRefused(file, f"{key}.type", f"only rotary embeddings scaled by {supported} are taken")
    if kind == "longrope":  # the factors are tensors
        return None
    scaling = {"rope_type": kind, "factor": factor}
    if type(original := metadata.get(f"{key}.original_context_length")) is int:
        scaling["original_max_position_embeddings"] = original
    for theirs, ours in YARN_FIELDS.items():
        if type(number := metadata.get(f"{key}.{theirs}")) is float:
            scaling[ours] = number
    return scaling | ({"truncate": False} if name == "gpt-oss" else {})


def _add_long_rope(
    config: dict[str, Any], metadata: dict[str, Any], tensors: dict[str, Tensor], file: str, path: Path
) -> None:
    """Phi-3's rotary embeddings: of a part of each head, perhaps, and with factors of their own for long sequences."""
    rotated, head_dim = metadata.get("phi3.rope.dimension_count"), attention_shape(config)[2]
    if type(rotated) is int and 0 < rotated < head_dim:
        config["partial_rotary_factor"] = rotated / head_dim
    if type(original := metadata.get("phi3.rope.scaling.original_context_length")) is int:
        config["original_max_position_embeddings"] = original
    if metadata.get("phi3.rope.scaling.type") != "longrope" and not LONG_FACTORS.keys() & tensors.keys():
        return
    if missing := [name for name in LONG_FACTORS if name not in tensors]:
        raise ModelRefused(
            file, missing[0], "the factors of rotary embeddings, which depend on the length, are missing"
        )
    factors = {field: list(_factors(tensors[name], file, path)) for name, field in LONG_FACTORS.items()}
    config["rope_scaling"] = {"rope_type": "longrope", **factors}


def _factors(tensor: Tensor, file: str, path: Path) -> tuple[float, ...]:
    """A tensor of factors of rotary embeddings. Raises ModelRefused where they are no such factors."""
    count = tensor.end - tensor.start >> 2
    if tensor.dtype != "F32" or count > 4096:
        raise ModelRefused(file, tensor.name, "the factors of rotary embeddings are a few numbers in F32")
    with path.open("rb") as stream:
        stream.seek(tensor.start)
        factors = struct.unpack(f"<{count}f", stream.read(4 * count))
    if not all(MIN_FACTOR < factor < MAX_FACTOR for factor in factors):
        raise ModelRefused(file, tensor.name, "the factors of rotary embeddings are at least 1")
    return factors


def _llama3_scaling(config: dict[str, Any], tensor: Tensor, file: str, path: Path) -> dict[str, Any]:
    """Llama 3's scaling, whose factors GGUF stores as a tensor. Raises ModelRefused where they are no such factors."""
    count = tensor.end - tensor.start >> 2
    factors = _factors(tensor, file, path)
    scaling, base = LLAMA3 | {"factor": round(max(factors), 3)}, config["rope_theta"]
    if type(base) is float and base > 0:
        implied = [_llama3_factor(2 * math.pi * base ** (at / count), scaling) for at in range(count)]
        if all(math.isclose(*pair, rel_tol=CLOSE) for pair in zip(factors, implied, strict=True)):
            return scaling
    raise ModelRefused(file, ROTARY_FACTORS, "the factors of rotary embeddings are not those of Llama 3")


def _llama3_factor(wavelength: float, scaling: dict[str, Any]) -> float:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] / wavelength
    smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
    return 1 / ((1 - smooth) / scaling["factor"] + smooth)


def _check_tokens(metadata: dict[str, Any], config: dict[str, Any], file: str) -> None:
    """Refuses a vocabulary that is larger than the embedding, and special tokens that are none of it."""
    tokens = metadata.get("tokenizer.ggml.tokens", [])
    if not isinstance(tokens, list) or len(tokens) > config["vocab_size"]:
        reason = f"the tokens are more than the {config['vocab_size']:,} rows of token_embd.weight"
        raise ModelRefused(file, "tokenizer.ggml.tokens", reason)
    count = len(tokens) or config["vocab_size"]
    for field in ("bos", "eos", "unk", "pad"):
        number = config.get(f"{field}_token_id", 0)
        if type(number) is not int or not 0 <= number < count:
            raise ModelRefused(file, f"tokenizer.ggml.{field}", "the special token is none of the vocabulary")
