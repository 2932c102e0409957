"""What a model's output is, by its transformers class: the unit that is counted, and the form of the numbers."""

from typing import Any, Literal, NamedTuple

from kernels.model_files.architectures import default_class, kind_of, mappings, names_of

Unit = Literal["tokens", "sequences", "embeddings", "images", "recordings"]
AnswerForm = Literal["tokens", "classes", "vectors"]

IMAGES: tuple[str, ...] = ("IMAGE", "IMAGE_CLASSIFICATION", "MASKED_IMAGE_MODELING", "SEMANTIC_SEGMENTATION")
IMAGES += ("OBJECT_DETECTION", "DEPTH_ESTIMATION", "BACKBONE")
SOUND = ("SPEECH_SEQ_2_SEQ", "AUDIO_CLASSIFICATION", "AUDIO_FRAME_CLASSIFICATION", "AUDIO_XVECTOR", "CTC")
CLASSES: tuple[str, ...] = (
    "SEQUENCE_CLASSIFICATION",
    "TOKEN_CLASSIFICATION",
    "MULTIPLE_CHOICE",
    "NEXT_SENTENCE_PREDICTION",
)
CLASSES += ("IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION", "AUDIO_FRAME_CLASSIFICATION", "CTC")
NEXT_TOKEN = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")
"""These are names of transformers' tables of model classes, without `MODEL_FOR_` and `_MAPPING_NAMES`."""
BOX = 4
"""A detector answers each query with logits and a box's centre, width and height. PP-OCR's answer with maps instead."""


class AnswerKind(NamedTuple):
    """What a model answers a request with.

    Throughput and price count `unit`. The output's `form` is one of three: `tokens` are logits over the vocabulary for
    every token, `classes` are logits over classes for one answer or a few, `vectors` are hidden states or other values.
    Sentences call a class by `noun`. The last `boxes` values of each vector are the coordinates of a box.
    """

    unit: Unit
    form: AnswerForm
    noun: str = "class"
    boxes: int = 0


def answer_of(model_type: str, architectures: list[str], encoder_decoder: bool = False) -> AnswerKind:
    """The kind of answer of the class that the configuration names, or else of the family's default class."""
    name = architectures[0] if architectures else default_class(model_type)
    if kind_of(model_type, [name], encoder_decoder) == "decoder":
        return AnswerKind("tokens", "tokens")
    unit = _unit(model_type, name)
    if name in names_of(*NEXT_TOKEN):  # BART is in the table of masked language models as well
        return AnswerKind(unit, "classes", "first token")
    if name in names_of("MASKED_LM"):
        return AnswerKind("tokens", "tokens")
    if name in names_of("QUESTION_ANSWERING"):
        return AnswerKind(unit, "classes", "start or end")
    if name in names_of("SEMANTIC_SEGMENTATION"):
        return AnswerKind(unit, "classes", "class of a pixel")
    if name in names_of("OBJECT_DETECTION") and not name.startswith("PPOCR"):
        return AnswerKind(unit, "vectors", boxes=BOX)
    return AnswerKind(unit, "classes" if name in names_of(*CLASSES) else "vectors")


def answer_of_config(config: dict[str, Any]) -> AnswerKind:
    """The kind of answer of the model that a checked config.json describes."""
    names = config.get("architectures") or []
    return answer_of(config["model_type"], names, bool(config.get("is_encoder_decoder")))


def _unit(model_type: str, name: str) -> Unit:
    mapping = mappings()
    plain = name in names_of("") or name in names_of("TEXT_ENCODING")
    sees = model_type in mapping["MODEL_FOR_IMAGE_MAPPING_NAMES"] or "VisionModel" in name
    if name in names_of(*IMAGES) or (plain and sees):
        return "images"
    if name in names_of(*SOUND) or (
        plain and any(model_type in mapping[f"MODEL_FOR_{kind}_MAPPING_NAMES"] for kind in SOUND)
    ):
        return "recordings"
    return "embeddings" if plain else "sequences"
