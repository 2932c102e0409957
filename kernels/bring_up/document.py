"""The document of a bring-up, which the workbench shows and other machines read. Imports without torch."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class VariantProofs(_Part):
    """How many cases of a variant passed the gate, failed it, or were refused by `serves`; a sentence a failure."""

    variant: str
    op: str
    passed: int = 0
    failed: int = 0
    refused: int = 0
    failures: dict[str, str] = {}
    refusal: str = ""


class Race(_Part):
    """The outcome of one case: the fastest variant of ours, the fastest peer, times in ms, and the roofline floor."""

    case: str
    own: str = ""
    own_ms: float | None = None
    peer: str = ""
    peer_ms: float | None = None
    floor_ms: float | None = None


class Gap(_Part):
    """An op of a model whose time can shrink; `ms` of one request lie between its time and its bound.

    `kind` is `missing` (no variant of ours passed; the bound is the floor), `behind` (a peer is faster; its time is the
    bound) or `above` (the bound is the floor). Times are in ms; `calls` counts the calls in one request.
    """

    model: str
    case: str
    calls: float
    kind: Literal["missing", "behind", "above"]
    ms: float
    variant: str
    call_ms: float
    bound_ms: float


class ModelCost(_Part):
    """One request of a catalogue model: the sum of its ops' best times, and of their floors, in ms."""

    model: str
    prompt: int
    tokens: int
    ms: float
    floor_ms: float
    gaps: list[Gap]


class BringUp(_Part):
    """Everything that a bring-up found.

    `stopped` holds a sentence for each step whose process ended or took too long; `left_out` names the steps that there
    was no time for.
    """

    version: Literal[1] = 1
    environment: dict[str, Any]
    entry: dict[str, Any]
    ceilings: dict[str, Any]
    quick: bool
    stranger: bool
    minutes: float
    proofs: list[VariantProofs]
    races: list[Race]
    models: list[ModelCost]
    next_steps: list[str]
    stopped: dict[str, str]
    left_out: list[str]
