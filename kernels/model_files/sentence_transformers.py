"""What the files of sentence-transformers say of a model that embeds texts: modules.json, the configurations of the
modules that it names, and the prompts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kernels.model_files.architectures import mappings
from kernels.model_files.content_checks import climbs_out
from kernels.model_files.errors import ModelRefused
from kernels.model_files.headers import read_header
from kernels.model_files.strict_json import read_json

MODULES, TRANSFORMER, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The modes of pooling by their fields up to version 5.3, in the order in which several are joined."""
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
MAX_FILE = 2**24
Find = Callable[[str], Path | None]
"""Where the content of a file of the model lies, by its path in the model's folder."""


class Dense(NamedTuple):
    """A linear layer with an activation behind it; `file` holds its weights."""

    file: str
    inputs: int
    outputs: int
    bias: bool
    activation: str


@dataclass(frozen=True)
class SentenceModules:
    """What is behind the transformer: pooling, layers, scaling. `prompts` by names; `longest` in tokens."""

    pooling: tuple[str, ...] = ("mean",)
    layers: tuple[Dense | Literal["normalize"], ...] = ("normalize",)
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    longest: int | None = None
    lower_case: bool = False

    def prompted(self, text: str, name: str | None = None) -> str:
        """A text as it is embedded, behind the prompt of that name. Raises ValueError where there is none."""
        name = name or self.default_prompt
        if name is not None and name not in self.prompts:
            names = ", ".join(self.prompts) or "none"
            raise ValueError(f"the model has no prompt {name[:60]!r}; its prompts: {names}")
        text = self.prompts.get(name or "", "") + text
        return text.lower() if self.lower_case else text


def sentence_modules(find: Find) -> SentenceModules | None:
    """None without modules.json, or where a transformer stands alone. Raises ModelRefused for other modules."""
    listed = [entry for entry in _read(find, MODULES, list) if isinstance(entry, dict)]
    modules = [(str(entry.get("type")).rpartition(".")[2], entry.get("path")) for entry in listed]
    if [name for name, _ in modules] in ([], ["Transformer"]):
        return None
    if [name for name, _ in modules[:2]] != ["Transformer", "Pooling"] or modules[0][1]:
        names = ", ".join(name for name, _ in modules)[:200]
        raise ModelRefused(MODULES, "", f"the modules must begin with a Transformer and its Pooling, but are {names}")
    width, pooling = _pooling(find, f"{modules[1][1]}/config.json")
    layers: list[Dense | Literal["normalize"]] = []
    for name, path in modules[2:]:
        if name == "Dense":
            layers.append(_dense(find, str(path), width))
            width = layers[-1].outputs  # type: ignore[union-attr]
        elif name == "Normalize":
            _check_sentence(f"{path}/config.json", _read(find, f"{path}/config.json", dict))
            layers.append("normalize")
        elif name != "Dropout":  # which only training has
            raise ModelRefused(MODULES, "type", f"the module {name[:60]!r} is not one that is taken here")
    transformer, prompts = _read(find, TRANSFORMER, dict), _read(find, PROMPTS, dict)
    if (task := transformer.get("transformer_task", "feature-extraction")) != "feature-extraction":
        raise ModelRefused(TRANSFORMER, "transformer_task", f"{str(task)[:60]!r} gives no vectors of tokens")
    own = _read(find, "tokenizer_config.json", dict).get("model_max_length")
    longest, texts = transformer.get("max_seq_length") or own, prompts.get("prompts") or {}
    if not isinstance(texts, dict) or any(not isinstance(text, str) for text in texts.values()):
        raise ModelRefused(PROMPTS, "prompts", "the field must map names to texts")
    default = prompts.get("default_prompt_name")
    if default is not None and default not in texts:
        raise ModelRefused(PROMPTS, "default_prompt_name", f"there is no prompt {str(default)[:60]!r}")
    return SentenceModules(
        pooling,
        tuple(layers),
        {"query": "", "document": ""} | texts,
        default,
        longest if type(longest) is int and longest > 0 else None,
        transformer.get("do_lower_case") is True,
    )


def with_modules(config: dict[str, Any], modules: SentenceModules | None) -> dict[str, Any]:
    """A configuration with the class that sentence-transformers loads: the family's without a head."""
    if modules is None or not isinstance(config, dict):
        return config
    mapping, family = mappings(), str(config.get("model_type"))
    own = mapping["MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"].get(family) or mapping["MODEL_MAPPING_NAMES"].get(family)
    return config | {"architectures": [own]} if isinstance(own, str) else config


def in_folder(directory: Path) -> Find:
    """Finds the files of a model's folder, and nothing outside it."""
    return lambda path: file if not climbs_out(path) and (file := directory / path).is_file() else None


def _pooling(find: Find, path: str) -> tuple[int | None, tuple[str, ...]]:
    """The width of the pooled vector where it is given, and the modes."""
    config = _read(find, path, dict, needed=True)
    given = config.get("pooling_mode") or [mode for name, mode in POOLING.items() if config.get(name) is True] or "mean"
    modes = tuple(given) if isinstance(given, list) else (given,)
    if any(mode not in POOLING.values() for mode in modes):
        raise ModelRefused(path, "pooling_mode", f"{str(given)[:60]!r} is not one of {', '.join(POOLING.values())}")
    if config.get("include_prompt") is False:
        raise ModelRefused(path, "include_prompt", "pooling without the tokens of the prompt is not served here")
    width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    return width * len(modes) if type(width) is int else None, modes


def _dense(find: Find, folder: str, width: int | None) -> Dense:
    path, file = f"{folder}/config.json", f"{folder}/model.safetensors"
    config = _read(find, path, dict, needed=True)
    _check_sentence(path, config)
    inputs, outputs, bias = config.get("in_features"), config.get("out_features"), config.get("bias", True)
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    package, _, name = activation.rpartition(".")
    if not package.startswith("torch.nn.modules.") or name not in ACTIVATIONS:
        raise ModelRefused(path, "activation_function", f"{activation[:80]!r} is not one of {', '.join(ACTIVATIONS)}")
    if config.get("use_residual"):
        raise ModelRefused(path, "use_residual", "a residual connection is not taken")
    if inputs != (width or inputs):
        raise ModelRefused(path, "in_features", f"is {inputs}, but the vector before it has {width} values")
    weights = find(file)
    if weights is None:
        raise ModelRefused(file, "", f"{MODULES} names a Dense module, whose weights must be in this file")
    shapes = {tensor.name: tensor.shape for tensor in read_header(file, weights)}
    if shapes != {"linear.weight": (outputs, inputs)} | ({"linear.bias": (outputs,)} if bias else {}):
        raise ModelRefused(file, "", f"the tensors are not those of a layer of {inputs} inputs and {outputs} outputs")
    return Dense(file, int(inputs), int(outputs), bool(bias), name)  # type: ignore[arg-type]


def _check_sentence(path: str, config: Mapping[str, Any]) -> None:
    """A module takes the vector of the text, and gives that."""
    for name in ("module_input_name", "module_output_name"):
        if config.get(name) not in (None, "sentence_embedding"):
            raise ModelRefused(path, name, "the module must change the vector of a text, not those of its tokens")


def _read(find: Find, path: str, kind: type, needed: bool = False) -> Any:
    """The document in a file; an empty one where there is none and it is not needed."""
    at = find(path)
    if at is None and needed:
        raise ModelRefused(path, "", f"the file is missing; {MODULES} names its folder")
    document = kind() if at is None else read_json(path, at, MAX_FILE)
    if not isinstance(document, kind):
        raise ModelRefused(path, "", f"the file must hold one JSON {'list' if kind is list else 'object'}")
    return document
