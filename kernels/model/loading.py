"""Builds models with transformers: from safetensors or from a seed, never with remote code."""

import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors.torch import load_file
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from kernels import model_files
from kernels.dtypes import DTYPE_NAMES, DTYPES
from kernels.model import striped_hyena, weights
from kernels.model.device_map import dispatch, place_empty
from kernels.model_files import AnswerKind, architectures, quantised
from kernels.model_files.architectures import Kind
from kernels.model_files.config import walk
from kernels.model_files.stored_weights import KV_SCALES
from kernels.quant.quantised_matrix import STORED

logger = logging.getLogger(__name__)
NO_PADDING = -1
"""No token has this id: classifiers of decoders, which look for the last token before padding, refuse to have none."""
_building = threading.RLock()
"""transformers builds a model under its dtype as torch's default, which threads share: one build at a time."""


@dataclass(frozen=True)
class ConfigurationFacts:
    """What a configuration builds. Bytes are in `dtype`; KV bytes are per token of one sequence, all layers."""

    kind: Kind
    family: str
    architecture: str
    model_type: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int
    dtype: str


def configuration(config: dict[str, Any]) -> PreTrainedConfig:
    """transformers' configuration object. Raises ValueError naming the field that is missing or unknown."""
    model_type = config.get("model_type")
    if not model_type:
        raise ValueError("config.json: model_type is missing")
    if model_type not in transformers.CONFIG_MAPPING:
        raise ValueError(f"config.json: model_type {model_type!r} is not an architecture that transformers knows")
    read = PreTrainedConfig._decode_special_floats(config)
    for name in ("dtype", "torch_dtype"):
        if isinstance(read.get(name), str):
            read[name] = read[name].removeprefix("torch.")
    try:
        built = transformers.CONFIG_MAPPING[model_type].from_dict(read)
    except Exception as error:  # transformers validates with many exception types
        raise ValueError(f"config.json: {_sentence(error)}") from error
    text: Any = built.get_text_config()
    padding, words = getattr(text, "pad_token_id", None), getattr(text, "vocab_size", None)
    if isinstance(padding, int) and isinstance(words, int) and padding >= words:
        text.pad_token_id = None  # torch builds no embedding with it, and nothing here is padded
    if getattr(text, "attn_logit_softcapping", None):
        built._attn_implementation = "eager"  # the others leave the soft cap out without a word
    return built


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class to build: the first of `architectures` that there is, else the family's default one."""
    for name in config.architectures or []:
        cls = getattr(transformers, name, None) or getattr(striped_hyena, name, None)
        if isinstance(cls, type) and issubclass(cls, PreTrainedModel) and cls.config_class is not None:
            if issubclass(type(config), cls.config_class):
                return cls
            raise ValueError(f"config.json: architectures names {name}, which is no {config.model_type} model")
    for mapping in (MODEL_FOR_MASKED_LM_MAPPING_NAMES, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES):
        default = mapping.get(config.model_type)
        if isinstance(default, str) and hasattr(transformers, default):
            return getattr(transformers, default)
    raise ValueError(f"config.json: transformers has no model for model_type {config.model_type!r}")


def kind_of(model: PreTrainedModel) -> Kind:
    """What a loaded model does."""
    config: Any = model.config
    return architectures.kind_of(config.model_type, [type(model).__name__], bool(config.is_encoder_decoder))


def answer_of(model: PreTrainedModel) -> AnswerKind:
    """What a loaded model answers with."""
    config: Any = model.config
    return model_files.answer_of(config.model_type, [type(model).__name__], bool(config.is_encoder_decoder))


def describe(config: dict[str, Any], dtype: str | None = None) -> ConfigurationFacts:
    """See `kernels.runners.describe`."""
    described = configuration(config)
    stored = described.dtype if isinstance(described.dtype, torch.dtype) else torch.float32
    model = _build(described, DTYPES[dtype] if dtype else stored, "meta")
    kind = kind_of(model)
    cached = _cached_per_token(described) * model.dtype.itemsize if kind == "decoder" else 0
    return ConfigurationFacts(
        kind=kind,
        family=described.model_type,
        architecture=type(model).__name__,
        model_type=described.model_type,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        weight_bytes=sum(parameter.nbytes for parameter in model.parameters()),
        kv_bytes_per_token=cached,
        dtype=DTYPE_NAMES.get(model.dtype, str(model.dtype)),
    )


def _cached_per_token(config: Any) -> int:
    """The elements of keys and values that a decoder keeps of each token."""
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or getattr(text, "num_attention_heads", 0) or 0
    head_dim = getattr(text, "head_dim", None) or _ratio(getattr(text, "hidden_size", 0), text, "num_attention_heads")
    return 2 * (getattr(text, "num_hidden_layers", 0) or 0) * heads * head_dim


def _ratio(numerator: int, config: Any, field: str) -> int:
    denominator = getattr(config, field, 0) or 0
    return numerator // denominator if denominator else 0


def skeleton(config: dict[str, Any], dtype: str) -> PreTrainedModel:
    """The model without its weights (meta device): shapes only. Raises ValueError when it cannot be built."""
    return _build(configuration(config), DTYPES[dtype], "meta")


def load(
    model_dir: Path | None,
    config: dict[str, Any],
    *,
    seed: int = 0,
    generated: bool = False,
    dtype: str = "bf16",
    device: str | None = None,
    device_map: dict[str, str] | None = None,
) -> PreTrainedModel:
    """See `kernels.runners.load`. With a `device_map` each module named in it is on that device."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}")
    target = device or ("cuda" if torch.cuda.is_available() else "cpu")
    wanted = configuration(config)
    if generated:
        with no_init_weights():
            model = _build(wanted, DTYPES[dtype], "meta" if device_map else target)
        if device_map:
            place_empty(model, device_map)
        model.tie_weights()
        weights.generate(model, seed)
        if device_map:
            dispatch(model, device_map)
    else:
        if model_dir is None:
            raise ValueError("a model that is not generated needs the directory of its safetensors")
        model = _read(model_dir, wanted, DTYPES[dtype], device_map)
        if not device_map:
            model.to(target)  # type: ignore[arg-type]
    texts: Any = model.config.get_text_config()
    if model.can_generate():
        model.generation_config = GenerationConfig(pad_token_id=texts.pad_token_id)
    elif getattr(texts, "pad_token_id", 0) is None:
        texts.pad_token_id = NO_PADDING
    return model.eval().requires_grad_(False)


def _build(config: PreTrainedConfig, dtype: torch.dtype, device: str) -> PreTrainedModel:
    built = model_class(config)
    try:
        with _building, torch.device(device):
            return built._from_config(config, dtype=dtype)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a configuration whose numbers disagree fails anywhere inside the constructor
        sentence = _unknown(error, config) if isinstance(error, KeyError) else _sentence(error)
        raise ValueError(f"config.json: transformers cannot build {built.__name__}: {sentence}") from error


def _read(
    model_dir: Path, config: PreTrainedConfig, dtype: torch.dtype, device_map: dict[str, str] | None
) -> PreTrainedModel:
    built = model_class(config)
    weight_files(model_dir)
    try:
        loaded: Any = built.from_pretrained(
            model_dir,
            config=config,
            dtype=dtype,
            device_map=device_map,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # shapes, headers and offsets fail with many exception types
        raise ValueError(f"{model_dir.name}: the tensors cannot be loaded: {_sentence(error)}") from error
    model, report = loaded
    if missing := missing_tensors(report):
        raise ValueError(f"the safetensors lack {len(missing)} tensors of {built.__name__}, first {missing[0]}")
    unexpected = sorted(report["unexpected_keys"])
    if unexpected:
        logger.warning("the safetensors hold %d tensors the model does not use: %s", len(unexpected), unexpected[0])
    _attach_scales(model, model_dir)
    return model


def _attach_scales(model: PreTrainedModel, model_dir: Path) -> None:
    """Gives weights their stored scales and zeros, and attention those of its keys and values."""
    for attribute in STORED:
        if (path := model_dir / attribute).is_file():
            for name, numbers in load_file(path).items():
                setattr(model.get_parameter(name), attribute, numbers)
    for module, name, scale in kv_scales(model_dir):
        setattr(model.get_submodule(module), name, scale)


def kv_scales(model_dir: Path) -> Iterator[tuple[str, str, torch.Tensor]]:
    """The scales of keys and values of a dequantised model, float32 [1] or [KV heads]: the name of the attention module
    of each, and `k_scale` or `v_scale`.
    """
    if (path := model_dir / KV_SCALES).is_file():
        for key, scale in load_file(path).items():
            module, _, name = key.rpartition(".")
            yield module, name, scale


def missing_tensors(report: dict[str, Any]) -> list[str]:
    """The tensors that the files lack, by transformers' report. A pooler of a model without a head counts for none:
    nothing reads what it gives, and models that embed texts are saved without it.
    """
    return sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))


def weight_files(directory: Path) -> list[Path]:
    """The safetensors of the weights. Raises ValueError for those of a quantised model: its codes are no weights."""
    try:
        files = {path: directory / path for path in model_files.select_in(directory).files}
        quantised.check_files(files)
        shards = {path: at for path, at in files.items() if path.endswith(".safetensors") and at.parent == directory}
        for path, at in shards.items():
            quantised.check_tensors(model_files.read_header(path, at))
    except model_files.ModelRefused as error:
        raise ValueError(f"{directory.name}: the tensors cannot be loaded: {error}") from None
    return list(shards.values())


def _unknown(error: KeyError, config: PreTrainedConfig) -> str:
    """A sentence that names the field whose value transformers does not know."""
    word = error.args[0] if error.args else ""
    paths = [path for path, _, item in walk(config.to_dict()) if item == word]
    return f"{paths[0] if paths else 'a field'}: {word!r} is not known"


def _sentence(error: Exception) -> str:
    """The first two lines of an error's text as one, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (" ".join(lines[:2]) or type(error).__name__)[:300]
