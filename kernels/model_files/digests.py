"""Digests that name models. They are the same on every machine.

Two digests name two things. The *model digest* covers what a model computes: its configuration, its seed when weights
are generated, and every file that may change its outputs. The *content digest* covers every file, byte for byte.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

GENERATOR_VERSION = 1
"""Part of a generated model's digest: raise it when the weights of a seed change."""

CONFIG = "config.json"
SOURCE_HASHES = ".source-hashes.json"
"""In a directory that was made of a model of quantised weights: [path, SHA-256] of each of that model's files."""
DOCUMENTATION_SUFFIXES = {".md", ".png", ".jpg"}
DOCUMENTATION_NAMES = {"LICENSE", "NOTICE", "README", "COPYING"}

Pairs = Iterable[tuple[str, str]]
"""(path in the model's directory, SHA-256 of the content) of each file, in any order."""


def content_digest(files: Pairs) -> str:
    """SHA-256 over every file's path and content hash: it names what is stored and served."""
    return _sha256(sorted([path, sha256] for path, sha256 in files))


def model_digest(config: dict[str, Any], files: Pairs, generated: bool, seed: int = 0) -> str:
    """SHA-256 over what changes the model's outputs: the configuration by what it says, files by `changes_outputs`, and
    `seed` if `generated`. It names the model in plans.
    """
    document: dict[str, Any] = {"config": config}
    if generated:
        document |= {"seed": seed, "generator": GENERATOR_VERSION}
    counted = sorted([_renamed(path), sha256] for path, sha256 in files if path != CONFIG and changes_outputs(path))
    if counted:
        document["files"] = counted
    return _sha256(document)


def _renamed(path: str) -> str:
    """A GGUF file is the same model under every name."""
    return "model.gguf" if path.endswith(".gguf") else path


def changes_outputs(path: str) -> bool:
    """Whether a file may change what the model computes: every file but documentation, pictures and hidden files."""
    pure = PurePosixPath(path)
    documents = pure.suffix.lower() in DOCUMENTATION_SUFFIXES or pure.name.split(".")[0] in DOCUMENTATION_NAMES
    return not documents and not any(part.startswith(".") for part in pure.parts)


def hash_of(file: Path) -> str:
    """SHA-256 of a file's content, read in chunks."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sha256(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
