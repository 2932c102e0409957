"""Digests of models, and weights made from a seed that are the same on every device. Imports without torch.

Every weight is an exact integer (four hash bytes summed: near normal, within 3.5 standard deviations) times one
float32 scale, so CPU and GPU give the same bits. Matrices get a standard deviation of 1/√fan-in, embeddings and LM
heads 2/√width (logits with a spread of about 2, so that greedy tokens are neither constant nor a coin toss); norms and
other vectors get the model's own initial value; biases are small.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

GENERATOR_VERSION = 1
"""Part of a generated model's digest: raise it when the weights of a seed change."""


def digest(files: Iterable[tuple[str, str]]) -> str:
    """Digest of an uploaded model: SHA-256 over its sorted (path, sha256) pairs."""
    return _sha256(sorted([path, sha256] for path, sha256 in files))


def generated_digest(config: dict[str, Any], seed: int) -> str:
    """Digest of a generated model: SHA-256 over configuration, seed and generator version; device-independent."""
    return _sha256({"config": config, "seed": seed, "generator": GENERATOR_VERSION})


def _sha256(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
