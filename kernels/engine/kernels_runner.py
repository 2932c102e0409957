"""The kernels runner: a plan's variants composed into one pass, under CUDA graphs."""

from collections.abc import Callable
from typing import Any

import torch

from kernels.engine import decoder
from kernels.engine.bound_variants import BoundVariants
from kernels.engine.bucket_session import BucketSession
from kernels.engine.compiled import CompiledRunner
from kernels.engine.kernels_session import KernelsSession
from kernels.engine.prompts import bucket
from kernels.engine.sessions import Session
from kernels.hardware import GPUS


class KernelsRunner(CompiledRunner):
    """Takes no options. `parts` are the plan's; without them every op is torch's own.

    A model that the compact decoder does not support is captured as transformers' own modules, with the variants that
    `kernels.engine.planned.install` has put into them.
    """

    name = "kernels"

    def __init__(
        self, model: torch.nn.Module, options: dict[str, Any] | None = None, parts: BoundVariants | None = None
    ) -> None:
        super().__init__(model, options)
        self._parts = BoundVariants([], GPUS["cpu"]) if parts is None else parts

    def close(self) -> None:
        del self._parts
        super().close()

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        if decoder.refusal(self.model):
            return BucketSession(self.model, batch, prompt, capacity)
        return KernelsSession(decoder.Decoder(self.model), self._parts, batch, max(capacity, bucket(prompt)))

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function
