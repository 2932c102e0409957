"""The kernels runner over a divided model: prompts and steps by all ranks, driven by one process."""

import torch
from torch import Tensor

from kernels.cuda.current import current
from kernels.cuda.graphs import captured_together
from kernels.hardware import GPUS
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.prompts import bucket
from kernels.model.state import State
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model.tensor_parallel_pass import RankPart, TensorParallelPass, TensorParallelPrompts
from kernels.runners.kernels_runner import KernelsRunner
from kernels.runners.kernels_session import KernelsSession
from kernels.runners.sessions import Session


class TensorParallelRunner(KernelsRunner):
    """Every op is torch's own, so its logits are the reference for a model that no single GPU can hold."""

    name = "divided"

    def __init__(self, divided: TensorParallelModel) -> None:
        super().__init__(divided.parts[0])
        self._divided = divided

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        return TensorParallelSession(self._divided, batch, max(capacity, bucket(prompt)))

    def close(self) -> None:
        del self._divided
        super().close()


class TensorParallelSession(KernelsSession):
    """A `KernelsSession` over all ranks: one graph for a step and one for each bucket of prompt lengths."""

    def __init__(self, divided: TensorParallelModel, batch: int, capacity: int) -> None:
        Session.__init__(self, divided.device, batch, capacity)
        ranks = [self._rank(Decoder(part)) for part in divided.parts]
        self.model, self.variants, self.state = ranks[0]
        self.prompts = TensorParallelPrompts(ranks, whole=True)
        self._devices = [rank.device for rank in ranks]
        self._step_pass = self._steps = TensorParallelPass(ranks, 1)
        self._step_stream = self.token
        self._served = 0

    def _rank(self, model: Decoder) -> RankPart:
        device = model.embedding.device
        with current(device):
            cos, sin = model.rope_table(self.capacity)
            token = self.token if device == self.device else torch.zeros_like(self.token, device=device)
            position = torch.zeros(1, dtype=torch.int64, device=device)
            state = State(self.batch, self.capacity, cos, sin, model.cache(self.batch, self.capacity), position, token)
        return RankPart(model, BoundVariants([], GPUS["cpu"]), state)

    def capture(self) -> None:
        """Captures the decode step."""
        self.step = captured_together(self._step, self._devices)

    def forced(self, ids: Tensor) -> Tensor:
        logits = super().forced(ids)
        self.prompts.check()
        self._steps.exchange.check()
        return logits
