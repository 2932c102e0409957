"""What is known of a model before anything runs: its files and the facts of its configuration."""

from typing import Any, Literal

from workers.documents.base import Document

Kind = Literal["decoder", "encoder", "other"]


class ModelFile(Document):
    """One file of a model directory; `path` is relative, with `/`."""

    path: str
    sha256: str
    size: int


class ModelManifest(Document):
    """A model as workers fetch it: by `digest`, file by file.

    Uploaded: `digest` is the SHA-256 of the sorted (path, sha256) list. Generated: the digest of configuration,
    seed and generator version (`kernels.engine.weights.generated_digest`); `files` then holds config.json alone.
    """

    digest: str
    name: str
    source: Literal["upload", "catalogue"]
    config: dict[str, Any]
    files: list[ModelFile]
    generated: bool
    seed: int = 0
    architecture: str
    model_type: str
    kind: Kind
    parameters: int
    weight_bytes: int
    has_tokenizer: bool = False
