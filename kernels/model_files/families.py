"""The tensors that a configuration implies, for the common families: names and shapes, as transformers saves them."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kernels.model_files.architectures import kind_of
from kernels.model_files.config import FILE, check_required, value
from kernels.model_files.errors import ModelRefused
from kernels.model_files.quantised import FIELD, scheme_of

Shapes = Iterator[tuple[str, tuple[int, ...]]]
FIELDS = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
GPT2_FIELDS = ("n_embd", "n_layer", "n_head", "vocab_size")


@dataclass(frozen=True)
class Mixture:
    """transformers' default for the number of experts, and for the width of one; None: `intermediate_size`."""

    experts: int
    inner: int | None = None
    wide_norms: bool = False
    """Whether the norms of q and k are as long as all heads together."""
    biased: bool = False
    """Whether router and experts have biases, and experts lie as [in, out] with gate and up in turn: gpt-oss."""


@dataclass(frozen=True)
class Family:
    """How to list the tensors of a family, and the defaults of transformers for fields that may be missing.

    `prefix` stands before the names of the stack's tensors; a base model is saved without it. `layers` is the path of
    the numbered layers below the prefix. `head` is the tensor that a tied model does not store.
    """

    shapes: Callable[[dict[str, Any]], Shapes]
    prefix: str
    layers: str
    head: str = ""
    tied: bool = False
    kv_heads: int | None = None
    head_dim: int | None = None
    qk_norm: bool = False
    qkv_bias: bool | None = None
    extra_norms: bool = False
    sinks: bool = False
    """Whether each head has an attention sink; such a family has biases of q, k, v and o unless it says otherwise."""
    mixture: Mixture | None = None


def llama_like(config: dict[str, Any]) -> Shapes:
    """Llama and its relatives, with one weight [rows, hidden] each for q, k and v."""
    family = FAMILIES[config["model_type"]]
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    heads, kv_heads, head_dim = attention_shape(config)
    bias = config.get("attention_bias", family.sinks) if family.qkv_bias is None else family.qkv_bias
    yield "embed_tokens.weight", (vocab, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}"
        for name, rows in (("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)):
            yield f"{at}.self_attn.{name}.weight", (rows * head_dim, hidden)
            if bias:
                yield f"{at}.self_attn.{name}.bias", (rows * head_dim,)
        yield f"{at}.self_attn.o_proj.weight", (hidden, heads * head_dim)
        if bias and family.qkv_bias is None:
            yield f"{at}.self_attn.o_proj.bias", (hidden,)
        if family.sinks:
            yield f"{at}.self_attn.sinks", (heads,)
        if family.qk_norm:
            wide = family.mixture is not None and family.mixture.wide_norms
            yield f"{at}.self_attn.q_norm.weight", (heads * head_dim if wide else head_dim,)
            yield f"{at}.self_attn.k_norm.weight", (kv_heads * head_dim if wide else head_dim,)
        if family.mixture is not None and is_sparse(config, layer):
            yield from _experts(at, config, family.mixture)
        else:
            yield from _mlp(at, config)
        yield from _norms(at, hidden, family.extra_norms)
    yield "norm.weight", (hidden,)


def _mlp(at: str, config: dict[str, Any]) -> Shapes:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    for name, shape in (("gate_proj", (inner, hidden)), ("up_proj", (inner, hidden)), ("down_proj", (hidden, inner))):
        yield f"{at}.mlp.{name}.weight", shape
        if config.get("mlp_bias", False) and config["model_type"] == "llama":
            yield f"{at}.mlp.{name}.bias", (shape[0],)


def _experts(at: str, config: dict[str, Any], mixture: Mixture) -> Shapes:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    if mixture.inner is not None:
        inner = value(config, "expert_size") or mixture.inner
    experts = value(config, "experts") or mixture.experts
    if mixture.biased:
        yield from ((f"{at}.mlp.router.weight", (experts, hidden)), (f"{at}.mlp.router.bias", (experts,)))
        for name, rows, columns in (("gate_up_proj", hidden, 2 * inner), ("down_proj", inner, hidden)):
            yield f"{at}.mlp.experts.{name}", (experts, rows, columns)
            yield f"{at}.mlp.experts.{name}_bias", (experts, columns)
        return
    yield f"{at}.mlp.gate.weight", (experts, hidden)
    yield f"{at}.mlp.experts.gate_up_proj", (experts, 2 * inner, hidden)
    yield f"{at}.mlp.experts.down_proj", (experts, hidden, inner)


def is_sparse(config: dict[str, Any], layer: int) -> bool:
    """Whether a layer of a mixture has experts, by the fields that Qwen3 has for it."""
    step = value(config, "sparse_step") or 1
    return layer not in (config.get("mlp_only_layers") or ()) and (layer + 1) % step == 0


def _norms(at: str, hidden: int, extra: bool) -> Shapes:
    names = ["input_layernorm", "post_attention_layernorm"]
    if extra:
        names += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for name in names:
        yield f"{at}.{name}.weight", (hidden,)


def phi3(config: dict[str, Any]) -> Shapes:
    """Phi-3: q, k, v in one matrix, gate and up in one."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads, head_dim = attention_shape(config)
    yield "embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}"
        yield f"{at}.self_attn.qkv_proj.weight", ((heads + 2 * kv_heads) * head_dim, hidden)
        yield f"{at}.self_attn.o_proj.weight", (hidden, heads * head_dim)
        yield f"{at}.mlp.gate_up_proj.weight", (2 * inner, hidden)
        yield f"{at}.mlp.down_proj.weight", (hidden, inner)
        yield from _norms(at, hidden, False)
    yield "norm.weight", (hidden,)


def gpt2(config: dict[str, Any]) -> Shapes:
    """GPT-2: its Conv1D weights are [in, out]."""
    hidden = config["n_embd"]
    inner = config.get("n_inner") or 4 * hidden
    yield "wte.weight", (config["vocab_size"], hidden)
    yield "wpe.weight", (config.get("n_positions") or 1024, hidden)
    for layer in range(config["n_layer"]):
        at = f"h.{layer}"
        for name, rows, columns in (
            ("attn.c_attn", hidden, 3 * hidden),
            ("attn.c_proj", hidden, hidden),
            ("mlp.c_fc", hidden, inner),
            ("mlp.c_proj", inner, hidden),
        ):
            yield f"{at}.{name}.weight", (rows, columns)
            yield f"{at}.{name}.bias", (columns,)
        for name in ("ln_1", "ln_2"):
            yield f"{at}.{name}.weight", (hidden,)
            yield f"{at}.{name}.bias", (hidden,)
    yield "ln_f.weight", (hidden,)
    yield "ln_f.bias", (hidden,)


def bert(config: dict[str, Any]) -> Shapes:
    """BERT: embeddings and the encoder's layers; pooler and heads depend on the task and are left out."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    rows = {"word": config["vocab_size"], "position": config.get("max_position_embeddings") or 512}
    rows["token_type"] = config["type_vocab_size"] if config.get("type_vocab_size") is not None else 2
    for name, count in rows.items():
        yield f"embeddings.{name}_embeddings.weight", (count, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            yield f"{at}.{name}.weight", (hidden, hidden)
            yield f"{at}.{name}.bias", (hidden,)
        yield f"{at}.intermediate.dense.weight", (inner, hidden)
        yield f"{at}.intermediate.dense.bias", (inner,)
        yield f"{at}.output.dense.weight", (hidden, inner)
        yield f"{at}.output.dense.bias", (hidden,)


_HEAD = "lm_head.weight"
FAMILIES: dict[str, Family] = {
    "llama": Family(llama_like, "model.", "layers", _HEAD),
    "mistral": Family(llama_like, "model.", "layers", _HEAD, kv_heads=8, qkv_bias=False),
    "qwen2": Family(llama_like, "model.", "layers", _HEAD, kv_heads=32, qkv_bias=True),
    "qwen3": Family(llama_like, "model.", "layers", _HEAD, kv_heads=32, head_dim=128, qk_norm=True),
    "gemma": Family(llama_like, "model.", "layers", _HEAD, tied=True, kv_heads=16, head_dim=256),
    "gemma2": Family(llama_like, "model.", "layers", _HEAD, tied=True, kv_heads=4, head_dim=256, extra_norms=True),
    "gemma3_text": Family(
        llama_like, "model.", "layers", _HEAD, tied=True, kv_heads=4, head_dim=256, qk_norm=True, extra_norms=True
    ),
    "qwen3_moe": Family(
        llama_like, "model.", "layers", _HEAD, kv_heads=4, qk_norm=True, mixture=Mixture(128, inner=768)
    ),
    "mixtral": Family(llama_like, "model.", "layers", _HEAD, kv_heads=8, qkv_bias=False, mixture=Mixture(8)),
    "olmoe": Family(llama_like, "model.", "layers", _HEAD, qk_norm=True, mixture=Mixture(64, wide_norms=True)),
    "gpt_oss": Family(
        llama_like, "model.", "layers", _HEAD, kv_heads=8, head_dim=64, sinks=True, mixture=Mixture(128, biased=True)
    ),
    "granite": Family(llama_like, "model.", "layers", _HEAD),
    "smollm3": Family(llama_like, "model.", "layers", _HEAD, tied=True, kv_heads=4),
    "phi3": Family(phi3, "model.", "layers", _HEAD),
    "gpt2": Family(gpt2, "transformer.", "h", _HEAD, tied=True),
    "bert": Family(bert, "bert.", "encoder.layer", tied=True),
}
"""Families whose tensors are checked one by one, by model_type."""


def attention_shape(config: dict[str, Any]) -> tuple[int, int, int]:
    """(query heads, key-value heads, head_dim), with transformers' defaults for what the configuration leaves out."""
    family = FAMILIES.get(config.get("model_type", ""))
    heads, hidden = value(config, "heads") or 1, value(config, "hidden_size") or 1
    kv_heads = value(config, "kv_heads")
    if kv_heads is None and "num_key_value_heads" not in config and family is not None:
        kv_heads = family.kv_heads
    head_dim = value(config, "head_dim")
    if head_dim is None and "head_dim" not in config and family is not None:
        head_dim = family.head_dim
    return heads, kv_heads or heads, head_dim or hidden // heads


def is_tied(config: dict[str, Any]) -> bool:
    """Whether the LM head shares the embedding's weights."""
    family = FAMILIES.get(config.get("model_type", ""))
    default = family.tied if family is not None else False
    given = config.get("tie_word_embeddings")
    return default if given is None else bool(given)


def has_own_head(config: dict[str, Any]) -> bool:
    """Whether the files hold an LM head: models of vectors or classes have none, and tied ones share it."""
    family, names = FAMILIES.get(config.get("model_type", "")), config.get("architectures") or []
    return bool(family and family.head) and not is_tied(config) and kind_of(config["model_type"], names) == "decoder"


def head_shape(config: dict[str, Any]) -> tuple[int, int]:
    """[vocab, hidden] of the LM head."""
    return value(config, "vocab_size") or 0, value(config, "hidden_size") or 0


def estimated_parameters(config: dict[str, Any]) -> int:
    """The number of parameters the configuration implies: of a known family the sum over its tensors, else about
    L·(4·h² + experts·3·h·inner) + 2·V·h; 0 without dimensions.
    """
    family = FAMILIES.get(config["model_type"])
    if family is not None:
        total = sum(math.prod(shape) for _, shape in family.shapes(config))
        return total + math.prod(head_shape(config)) * has_own_head(config)
    sizes = {what: value(config, what) for what in ("hidden_size", "layers", "intermediate_size", "vocab_size")}
    hidden, layers = sizes["hidden_size"], sizes["layers"]
    if hidden is None or layers is None:
        nested = [item for key, item in config.items() if key.endswith("_config") and isinstance(item, dict)]
        return sum(estimated_parameters({"model_type": "", **item}) for item in nested)
    inner, vocab = sizes["intermediate_size"] or 4 * hidden, sizes["vocab_size"] or 0
    experts = max(1, value(config, "experts") or 1)
    inner = (value(config, "expert_size") if experts > 1 else None) or inner
    return layers * (4 * hidden**2 + experts * 3 * hidden * inner) + 2 * vocab * hidden


def is_mixture(config: dict[str, Any]) -> bool:
    """Whether tokens use only some of the model's weights."""
    family = FAMILIES.get(config.get("model_type", ""))
    return bool(value(config, "experts") or (family is not None and family.mixture is not None))


def stored_experts(config: dict[str, Any]) -> Literal["mxfp4", ""]:
    """The lower precision in which the experts of a mixture were stored, where products hold it; "" for others."""
    stored = config.get("dequantised_from") or {}
    return "mxfp4" if is_mixture(config) and stored.get("quant_method") == "mxfp4" else ""


def stored_rows(config: dict[str, Any]) -> Literal["fp8", ""]:
    """fp8 for a model of one MLP a layer whose weights were stored in it with one scale for a tensor or for each of its
    rows, where products hold them; "" for others.
    """
    stored = config.get("dequantised_from")
    try:
        scheme = None if is_mixture(config) or not isinstance(stored, dict) else scheme_of({FIELD: stored})
    except ModelRefused:
        return ""
    return "fp8" if scheme is not None and scheme.of_rows else ""


def normed_over_heads(config: dict[str, Any]) -> bool:
    """Whether a mixture's q and k are each normed over all heads, so that no GPU of several can have some of them."""
    family = FAMILIES.get(config.get("model_type", ""))
    return family is not None and family.mixture is not None and family.mixture.wide_norms


class ExpertSizes(NamedTuple):
    """A token of a mixture goes to `top_k` of `experts`. One expert has `parameters` in all layers together."""

    experts: int
    top_k: int
    parameters: int

    @property
    def of_one_token(self) -> int:
        """The parameters of the experts that a token goes to."""
        return self.top_k * self.parameters


def expert_sizes(config: dict[str, Any]) -> ExpertSizes | None:
    """The experts of a mixture; None where they are not known, and for other models."""
    family, top_k = FAMILIES.get(config.get("model_type", "")), value(config, "chosen")
    if family is None or family.mixture is None or top_k is None:
        return None
    experts = value(config, "experts") or family.mixture.experts
    sizes = (math.prod(shape) for name, shape in family.shapes(config) if ".mlp.experts." in name)
    return ExpertSizes(experts, min(top_k, experts), sum(size // experts for size in sizes))


def unchosen_parameters(config: dict[str, Any]) -> int | None:
    """Parameters of experts that multiply nothing of one token; None for a mixture where that is not known."""
    if not is_mixture(config):
        return 0
    of = expert_sizes(config)
    return None if of is None else (of.experts - of.top_k) * of.parameters


def check_family_fields(config: dict[str, Any]) -> None:
    """Refuses a configuration of a known family that lacks a dimension. Raises ModelRefused."""
    family = FAMILIES.get(config["model_type"])
    if family is not None:
        check_required(config, GPT2_FIELDS if family.shapes is gpt2 else FIELDS)
        dense = config.get("mlp_only_layers")
        if dense is not None and (not isinstance(dense, list) or any(type(index) is not int for index in dense)):
            raise ModelRefused(FILE, "mlp_only_layers", "the field must be a list of numbers of layers")
