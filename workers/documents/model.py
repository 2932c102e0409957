"""A model's manifest: its files and the facts of its configuration, known before anything runs."""

import re
from typing import Any, Literal

from workers.documents.base import Document

Kind = Literal["decoder", "encoder", "other"]
CountedUnit = Literal["tokens", "sequences", "embeddings", "images", "recordings"]
"""What throughput and price count of a model's answers; `kernels.model_files.answers` says which."""


IN_ROWS = ("fp8", "ModelOpt's FP8", "compressed-tensors (fp8)")
"""Weights in fp8 with a scale for a tensor or a row, as `ModelManifest.quantised` names them."""


class ModelFile(Document):
    """One file of a model directory; `path` is relative, with `/`."""

    path: str
    sha256: str
    size: int


class ModelManifest(Document):
    """A model as a stage and its worker know it.

    `digest` covers what changes the outputs and names the model in plans; `content_digest` covers all of `files` and
    names what is stored and served (`kernels.model_files.digests`). Without weights among the files, they are
    `generated` from `seed`. `quantised` names the format of weights that are dequantised to bf16 before a stage reads
    them, which `config` and `weight_bytes` are about. `notes` are sentences on what of the files is ignored. Results of
    older versions have no `content_digest`.
    """

    digest: str
    content_digest: str = ""
    name: str
    source: Literal["upload", "catalogue"]
    config: dict[str, Any]
    files: list[ModelFile]
    generated: bool
    seed: int = 0
    architecture: str
    model_type: str
    kind: Kind
    counted: CountedUnit = "tokens"
    parameters: int
    weight_bytes: int
    has_tokenizer: bool = False
    quantised: str = ""
    notes: list[str] = []

    @property
    def kind_words(self) -> str:
        """The kind for people: `decoder`, `encoder`, `encoder-decoder`, `encoder of images`."""
        if self.kind != "other":
            return self.kind
        if self.decodes_once:
            return "encoder-decoder"
        return f"encoder of {self.counted}" if self.counted in ("images", "recordings") else "other"

    @property
    def reads_text(self) -> bool:
        """Whether stages can turn text into tokens: they read tokenizer.json, which they make of a GGUF file's own."""
        names = {file.path for file in self.files}
        return "tokenizer.json" in names or (self.has_tokenizer and any(name.endswith(".gguf") for name in names))

    @property
    def dequantised_sentence(self) -> str:
        """What becomes of quantised weights, as a sentence; "" for a model without."""
        if not self.quantised:
            return ""
        if self.in_four_bits:
            return f"Its weights are {self.quantised}. What runs today has them in bf16; a plan may keep the four bits."
        if self.quantised in IN_ROWS and not any("experts" in name for name in self.config):
            return f"Its weights are {self.quantised}. What runs today has them in bf16; a plan may keep their codes."
        return f"Its weights are {self.quantised}: they are dequantised to bf16 before anything is measured."

    @property
    def in_four_bits(self) -> bool:
        """Whether most of its weights were stored as integers of four bits, whose codes and scales plans keep."""
        stored = self.config.get("dequantised_from") or {}
        return not stored.get("desc_act") and re.search(r"\(4 bits|\(Q4_[01]\b", self.quantised) is not None

    @property
    def decodes_once(self) -> bool:
        """Whether a request is the encoder's pass and one decoder step, as with T5 and Whisper."""
        return bool(self.config.get("is_encoder_decoder")) and self.counted in ("sequences", "recordings")
