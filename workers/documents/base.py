"""The base of every document: strict fields and one JSON form."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Basis = Literal["measured", "modelled", "stated"]
"""Where a number comes from: measured here, computed from a model, or stated by the customer."""
Verdict = Literal["met", "missed", "not_enough_samples", "too_close"]


class Document(BaseModel):
    """A pydantic model that refuses unknown fields and non-finite numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class Artifact(Document):
    """A file kept by content hash; `name` is for people, `sha256` finds it."""

    name: str = Field(min_length=1, max_length=200)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, lt=2**63)
    media_type: str = Field(default="application/octet-stream", max_length=100)
