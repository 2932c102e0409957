"""What can be built: by transformers, read from its source without importing it, and our own family."""

import ast
import importlib.metadata
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Literal

from kernels.model_files.errors import ModelRefused

Kind = Literal["decoder", "encoder", "other"]

TEXT_TASKS: tuple[str, ...] = ("MASKED_LM", "SEQUENCE_CLASSIFICATION", "TOKEN_CLASSIFICATION", "QUESTION_ANSWERING")
TEXT_TASKS += ("MULTIPLE_CHOICE", "NEXT_SENTENCE_PREDICTION")
"""transformers' tables of models that read text in one pass, each with a head for its task."""

MASKS = ("IMAGE_SEGMENTATION", "INSTANCE_SEGMENTATION", "UNIVERSAL_SEGMENTATION", "MASK_GENERATION")
"""transformers' tables of models that answer with a mask for each object."""

IMAGE_AND_TEXT = ("IMAGE_TEXT_TO_TEXT", "ZERO_SHOT_IMAGE_CLASSIFICATION", "VISUAL_QUESTION_ANSWERING")
"""transformers' tables of models that take images and text together."""
OWN_AUTO_CLASSES = {
    "CONFIG_MAPPING_NAMES": {"striped_hyena": "StripedHyenaConfig"},
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES": {"striped_hyena": "StripedHyenaForCausalLM"},
}
"""The tables' lines of `kernels.model.striped_hyena`."""
MAIN_INPUT = re.compile(r'main_input_name = "(\w+)"')
NOT_MADE_UP = {"input_values", "past_values", "pixel_values_videos"}
"""Sound waves, time series and films: inputs that `kernels.model.inputs` cannot make up from a configuration."""


def check_architecture(model_type: str, architectures: list[str]) -> None:
    """Refuses a model_type or an architecture that transformers does not know, models that take images and text, sound
    waves, time series or films (nobody can make these up) and those that answer with masks of objects (their masks
    would not be judged). Raises ModelRefused.
    """
    auto_classes = mappings()
    version = importlib.metadata.version("transformers")
    if model_type not in auto_classes["CONFIG_MAPPING_NAMES"]:
        raise ModelRefused("config.json", "model_type", f"{model_type[:60]!r} is unknown to transformers {version}")
    for name in architectures:
        listed = any(name in _names(mapping) for mapping in auto_classes.values())
        if not listed and not _has_class(name):
            raise ModelRefused("config.json", "architectures", f"{name[:60]!r} is unknown to transformers {version}")
        about_images = name in names_of(*IMAGE_AND_TEXT) - names_of("SEQ_TO_SEQ_CAUSAL_LM")
        if about_images and kind_of(model_type, [name]) != "decoder":
            sentence = f"{name} answers images and text together, which the workbench cannot make up"
            raise ModelRefused("config.json", "architectures", sentence)
        if (inputs := _main_inputs(model_type)) and inputs <= NOT_MADE_UP:
            sentence = f"{name} takes {' or '.join(sorted(inputs))}, which the workbench cannot make up"
            raise ModelRefused("config.json", "architectures", sentence)
        if name in names_of(*MASKS):
            sentence = f"{name} answers with masks of objects, which the workbench does not judge"
            raise ModelRefused("config.json", "architectures", sentence)


def kind_of(model_type: str, architectures: list[str], encoder_decoder: bool = False) -> Kind:
    """What the class that the configuration names does, or else the family's default class: a decoder generates tokens
    one by one, an encoder reads text in one pass, other are the rest.
    """
    name = architectures[0] if architectures else default_class(model_type)
    if name in names_of("TEXT_ENCODING"):  # T5's encoder alone has the configuration of both halves
        return "encoder"
    if encoder_decoder:
        return "other"
    if name in names_of("CAUSAL_LM") - names_of("MASKED_LM"):
        return "decoder"
    of_text = any(model_type in mappings()[f"MODEL_FOR_{task}_MAPPING_NAMES"] for task in ("CAUSAL_LM", *TEXT_TASKS))
    takes_ids = _main_inputs(model_type) <= {"input_ids"}
    return "encoder" if takes_ids and (of_text or name in names_of(*TEXT_TASKS)) else "other"


def default_class(model_type: str) -> str:
    """As `kernels.model.loading.model_class` chooses it."""
    for table in ("MODEL_FOR_MASKED_LM", "MODEL_FOR_CAUSAL_LM", "MODEL"):
        name = mappings()[f"{table}_MAPPING_NAMES"].get(model_type)
        if isinstance(name, str):
            return name
    return ""


def _names(mapping: dict[str, str | tuple[str, ...]]) -> set[str]:
    names: set[str] = set()
    for value in mapping.values():
        names.update([value] if isinstance(value, str) else value)
    return names


def names_of(*tables: str) -> set[str]:
    """The classes in transformers' tables, such as IMAGE_CLASSIFICATION; "" is the table of models without a head."""
    prefixed = (f"MODEL_FOR_{table}" if table else "MODEL" for table in tables)
    return {name for prefix in prefixed for name in _names(mappings()[f"{prefix}_MAPPING_NAMES"])}


@cache
def mappings() -> dict[str, dict[str, str | tuple[str, ...]]]:
    """transformers' tables of model types and classes, by the tables' names, with our own family in them."""
    tables: dict[str, dict[str, str | tuple[str, ...]]] = {}
    auto = transformers_folder() / "models" / "auto"
    for file in ("auto_mappings.py", "configuration_auto.py", "modeling_auto.py"):
        if not (auto / file).exists():
            continue
        for node in ast.parse((auto / file).read_text(encoding="utf-8")).body:
            _collect(node, tables)
    for table, lines in OWN_AUTO_CLASSES.items():
        tables[table].update(lines)
    return tables


def _collect(node: ast.stmt, tables: dict[str, dict[str, str | tuple[str, ...]]]) -> None:
    """Adds `NAME = OrderedDict([(key, value)])`, its `**{key: value}` form and `NAME.update({key: value})`."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name, value = node.targets[0].id, node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        owner = node.value.func.value
        name, value = (owner.id if isinstance(owner, ast.Name) else ""), node.value
    else:
        return
    if not name.endswith("MAPPING_NAMES") or not isinstance(value, ast.Call):
        return
    for argument in [*value.args, *(keyword.value for keyword in value.keywords)]:
        try:
            tables.setdefault(name, {}).update(ast.literal_eval(argument))
        except ValueError:
            continue


def _has_class(name: str) -> bool:
    """Whether any family has the class: the tables name those alone that an Auto class builds."""
    if not name.isidentifier():
        return False
    files = (transformers_folder() / "models").glob("*/modeling_*.py")
    return any(f"\nclass {name}(" in file.read_text(encoding="utf-8") for file in files)


@cache
def _main_inputs(model_type: str) -> set[str]:
    """The main inputs that a family's classes declare; ids, which need no declaration, are left out."""
    if not model_type.replace("-", "_").isidentifier():
        return set()
    folder = transformers_folder() / "models" / model_type.replace("-", "_")
    return {name for file in folder.glob("modeling_*.py") for name in MAIN_INPUT.findall(file.read_text("utf-8"))}


@cache
def transformers_folder() -> Path:
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise RuntimeError("transformers is not installed, so no architecture can be checked")
    return Path(spec.origin).parent
