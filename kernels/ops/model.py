"""Whole models. Imports without torch."""

from typing import Literal

from pydantic import Field

from kernels.ops.base import MODEL_BYTES, BaseCase, Weights
from kernels.quant.formats import dense_precision


class ModelCase(BaseCase):
    """A whole model generating `tokens` from `prompt` tokens. `model` is a catalogue name or a digest.

    FLOPs and bytes depend on the configuration, so the case carries them: `parameters` that multiply a token, and
    `bytes_per_token` that a decode step must read. `last_only` of the parameters multiply no token of a prompt but the
    last: the head's, and those of the last layer except for keys and values. Where several `gpus` share them, rooflines
    are of one GPU's part.
    """

    part = "the whole model"

    op: Literal["model"] = "model"
    model: str
    weights: Weights = "bf16"
    batch: int = Field(ge=1)
    prompt: int = Field(ge=1)
    tokens: int = Field(ge=1)
    parameters: int = 0
    last_only: int | None = Field(default=None, ge=0)
    """None: not known, every parameter multiplies every token."""
    bytes_per_token: float = 0
    expert_parameters: int | None = None
    """Those of `parameters` that are of experts; None: of a model without, or not known."""
    gpus: int | None = Field(default=None, ge=2)
    """None: one."""
    distinct_experts: float | None = None
    """Different experts of a layer that the tokens chose together, in the mean; None: as `bytes_per_token` counts."""
    top_tenth_share: float | None = None
    """The share of the choices that fell on the most chosen tenth of the experts."""

    @property
    def flops(self) -> float:
        once = (self.last_only or 0) * (self.prompt - 1)
        weight_uses = self.parameters * (self.prompt + self.tokens - 1) - once
        return 2.0 * self.batch * weight_uses / (self.gpus or 1)

    @property
    def least_bytes(self) -> float:
        return self.step_bytes * self.tokens

    @property
    def step_bytes(self) -> float:
        """Bytes that each GPU must read for a token."""
        return self.bytes_per_token / (self.gpus or 1)

    @property
    def matrix_precision(self) -> str:
        return self.weights

    def with_weights(self, weights: str) -> "ModelCase":
        """The same with its parameters in another precision; in MXFP4 those of experts alone."""
        lowered = self.parameters if dense_precision(weights) else self.expert_parameters or 0
        fewer = lowered * (MODEL_BYTES[self.weights] - MODEL_BYTES[weights])
        return self.model_copy(update={"weights": weights, "bytes_per_token": self.bytes_per_token - fewer})


def last_only(parameters: int, head: int, layers: int) -> int:
    """The parameters that multiply a prompt's last token alone: the `head`, and one of `layers`, all counted."""
    return head + -(-(parameters - head) // layers)
