"""config.json: remote code, numbers that no model has, and fields that contradict each other."""

import math
from collections.abc import Iterator
from typing import Any

from kernels.model_files.errors import ModelRefused
from kernels.model_files.strict_json import special_float

ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim"),
    "vocab_size": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions", "n_ctx"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "expert_size": ("moe_intermediate_size",),
    "chosen": ("num_experts_per_tok",),
    "sparse_step": ("decoder_sparse_step",),
    "types": ("type_vocab_size",),
}
"""What a dimension is called in different families."""

HIGHEST: dict[str, int] = {
    "hidden_size": 131_072,
    "layers": 1_024,
    "heads": 2_048,
    "kv_heads": 2_048,
    "head_dim": 4_096,
    "intermediate_size": 1_048_576,
    "vocab_size": 4_194_304,
    "positions": 134_217_728,
    "experts": 4_096,
    "expert_size": 1_048_576,
    "chosen": 4_096,
    "sparse_step": 1_024,
    "types": 1_024,
}
MAY_BE_ZERO = {"experts", "types"}
MAX_PARAMETERS = 4 * 10**12
SMALL_FRACTIONS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
BASES = ("rope_theta", "rope_local_base_freq", "rotary_emb_base")
ATTENTION = {"eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"}
REMOTE_CODE = {"auto_map", "custom_pipelines", "trust_remote_code"}
FILE = "config.json"


def value(config: dict[str, Any], what: str) -> int | None:
    """The dimension `what` (a key of ALIASES) under whichever name it has; None if it is missing or a list."""
    number = config.get(dimension_name(config, what))
    return number if type(number) is int else None


def dimension_name(config: dict[str, Any], what: str) -> str:
    """The name that the configuration uses for the dimension, or the default one."""
    return next((name for name in ALIASES[what] if config.get(name) is not None), ALIASES[what][0])


def walk(document: Any) -> Iterator[tuple[str, str, Any]]:
    """Every (path, key, item) below the document, without recursion, so that no nesting can exhaust the stack."""
    pending: list[tuple[str, Any]] = [("", document)]
    while pending:
        path, inner = pending.pop()
        for path_of_item, key, item in _items(path, inner):
            yield path_of_item, key, item
            if item and isinstance(item, (dict, list)):
                pending.append((path_of_item, item))


def _items(path: str, inner: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(inner, dict):
        yield from ((f"{path}.{key}" if path else key, key, item) for key, item in inner.items())
    else:
        yield from ((f"{path}[{index}]", "", item) for index, item in enumerate(inner))


def check_no_remote_code(file: str, document: Any) -> None:
    """Refuses `auto_map` and everything else that would make transformers fetch or run foreign code."""
    if not isinstance(document, (dict, list)):
        return
    for path, key, item in walk(document):
        if key in REMOTE_CODE and item:
            raise ModelRefused(file, path, "remote code is not run; only what transformers itself can build is taken")
        if key.endswith("attn_implementation") and not (item is None or (isinstance(item, str) and item in ATTENTION)):
            raise ModelRefused(file, path, "only transformers' own attention implementations are taken")


def check_config(config: Any) -> None:
    """Refuses a configuration that is no object, has absurd numbers or contradicts itself. Raises ModelRefused."""
    if not isinstance(config, dict):
        raise ModelRefused(FILE, "", "the file must hold one JSON object")
    check_no_remote_code(FILE, {key: item for key, item in config.items() if key != "auto_map"})
    _check_finite(config)
    _check_bases(config)
    _check_identity(config)
    for prefix, section in _sections(config):
        _check_numbers(prefix, section)
        _check_heads(prefix, section)


def _check_identity(config: dict[str, Any]) -> None:
    if not isinstance(config.get("model_type"), str) or not config["model_type"]:
        raise ModelRefused(FILE, "model_type", "the field is missing; it says which architecture the model has")
    names = config.get("architectures")
    if names is not None and (not isinstance(names, list) or any(not isinstance(name, str) for name in names)):
        raise ModelRefused(FILE, "architectures", "the field must be a list of names")


def _sections(config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    nested = [(f"{key}.", item) for key, item in config.items() if key.endswith("_config") and isinstance(item, dict)]
    return [("", config), *nested]


def _check_finite(config: dict[str, Any]) -> None:
    """Limits of time steps and the like may be infinite; the angles of rotary embeddings may not."""
    for path, _, item in walk(config):
        special = special_float(item)
        if special == "NaN" or (special and path.startswith("rope_")):
            raise ModelRefused(FILE, path, f"{special} is not a number a model can have")
        if isinstance(item, float) and not math.isfinite(item):
            raise ModelRefused(FILE, path, "the number is too large")


def _check_bases(config: dict[str, Any]) -> None:
    """The base of rotary embeddings is above 0: else every position is no number, or the same."""
    for path, key, item in walk(config):
        if key in BASES and item is not None and (type(item) not in (int, float) or item <= 0):
            raise ModelRefused(FILE, path, f"must be a number above 0, but is {str(item)[:40]!r}")


def _check_numbers(prefix: str, config: dict[str, Any]) -> None:
    for what, names in ALIASES.items():
        lowest, highest = (0 if what in MAY_BE_ZERO else 1), HIGHEST[what]
        for name in names:
            number = config.get(name)
            special = special_float(number)
            if number is None or (isinstance(number, (list, dict)) and not special):
                continue
            if type(number) is not int:
                shown = special or str(number)[:40]
                raise ModelRefused(FILE, prefix + name, f"must be a whole number, but is {shown!r}")
            if not lowest <= number <= highest:
                shown = f"{number:,}" if abs(number) < 10**15 else "far outside"
                raise ModelRefused(FILE, prefix + name, f"must be from {lowest} to {highest:,}, but is {shown}")
    for name in SMALL_FRACTIONS:
        number = config.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            raise ModelRefused(FILE, prefix + name, f"must be a number, but is {str(number)[:40]!r}")
        if number is not None and not 0 <= number < 1:
            raise ModelRefused(FILE, prefix + name, f"must be from 0 to 1, but is {number:g}")


def _check_heads(prefix: str, config: dict[str, Any]) -> None:
    hidden, heads, kv_heads = (value(config, what) for what in ("hidden_size", "heads", "kv_heads"))
    if hidden is None or heads is None:
        return
    if value(config, "head_dim") is None and hidden % heads:
        field = prefix + dimension_name(config, "heads")
        raise ModelRefused(
            FILE, field, f"{heads} heads do not divide {dimension_name(config, 'hidden_size')}, which is {hidden}"
        )
    if kv_heads is not None and heads % kv_heads:
        raise ModelRefused(
            FILE, f"{prefix}num_key_value_heads", f"{kv_heads} key-value heads do not divide the {heads} query heads"
        )


def check_required(config: dict[str, Any], names: tuple[str, ...]) -> None:
    """Refuses a configuration without the fields that its family needs, or with a list where it has one number."""
    for name in names:
        if config.get(name) is None:
            raise ModelRefused(FILE, name, "the field is missing")
    for name in {name for aliases in ALIASES.values() for name in aliases}:
        if isinstance(config.get(name), (list, dict)):
            raise ModelRefused(FILE, name, "must be one whole number")
