"""The kernels runner: a plan's variants composed into one pass, under CUDA graphs."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.cuda.current import device_guard
from kernels.cuda.graphs import capture_graph, capture_graph_of_several
from kernels.hardware import GPUS
from kernels.model import decoder
from kernels.model.bound_variants import BoundVariants
from kernels.model.decoder import Decoder
from kernels.model.experts import has_experts
from kernels.model.head import bound_head
from kernels.model.passes import Pass
from kernels.model.prompts import OnePass, PromptReader, bucket
from kernels.model.rounding import Rounding, round_decoder, round_weights, with_folded_norms
from kernels.model.state import State
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model.tensor_parallel_pass import RankShard, TensorParallelPass, TensorParallelPrompts
from kernels.quant.quantised_matrix import QUANTISERS
from kernels.runners.base import prompt_length
from kernels.runners.compiled import CompiledRunner
from kernels.runners.readers import SeenReader, TokenReader
from kernels.runners.sessions import BucketSession, Session


class KernelsRunner(CompiledRunner):
    """`variants` are the plan's; without them every op is torch's own. Options: `weights` and `rounding`.

    Of a mixture `weights` may be int8, or mxfp4 for its experts alone.

    With `weights` fp8 and a `rounding` (the fields of `Rounding`) the whole decoder is rounded first, its norms folded
    into the matrices behind them; variants that hold fp8 then hold these very values. Without a `rounding`, and in
    int8, each such variant rounds its own weight to nearest.

    A model that the compact decoder does not support is captured as transformers' own modules, with the variants that
    `kernels.runners.planned.install` has put into them.
    """

    name = "kernels"

    def __init__(
        self, model: torch.nn.Module, options: dict[str, Any] | None = None, variants: BoundVariants | None = None
    ) -> None:
        super().__init__(model, options)
        weights, mixture = self.options.get("weights"), has_experts(model.config)
        if weights in QUANTISERS and weights != "int8" and mixture:
            raise ValueError(f"weights {weights}: experts are held in int8 or mxfp4 alone")
        if weights == "mxfp4" and not mixture:
            raise ValueError("weights mxfp4: only experts are held so, and the model has none")
        self._variants = BoundVariants([], GPUS["cpu"]) if variants is None else variants

    def close(self) -> None:
        del self._variants
        super().close()

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        if decoder.refusal(self.model):
            return BucketSession(self.model, batch, prompt, capacity)
        return KernelsSession(self._compact(), self._variants, batch, max(capacity, bucket(prompt)))

    def _compact(self) -> decoder.Decoder:
        compact, weights = decoder.Decoder(self.model), self.options.get("weights")
        rounding = Rounding.model_validate(self.options.get("rounding", {}))
        if weights == "fp8" and rounding.method != "nearest":
            compact = with_folded_norms(compact)
            compact = round_decoder(compact, round_weights(self.model, compact, weights, rounding))
        return compact

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


TOKEN_SLACK = 0.03
"""Share of the largest logit by which a chosen token may miss it through rounding."""


class KernelsSession(Session):
    """The compact decoder with a plan's variants, for prompts of any length up to the capacity."""

    def __init__(self, model: decoder.Decoder, variants: BoundVariants, batch: int, capacity: int) -> None:
        super().__init__(model.embedding.device, batch, capacity)
        self.model, self.variants = model, variants
        position = torch.zeros(1, dtype=torch.int64, device=self.device)
        stream = seen = None
        if bound_head(model, variants, batch).variant.advances_token:
            stream = model.embedding.new_zeros(batch, model.embedding.shape[1])
            pinned = self.device.type == "cuda"
            seen = torch.zeros(capacity + 1, batch, dtype=torch.int64, pin_memory=pinned)
        cos, sin = model.rope_table(capacity)
        cache = model.cache(batch, capacity)
        self.state = State(batch, capacity, cos, sin, cache, position, self.token, stream, seen)
        self.prompts = PromptReader(model, variants, self.state, whole=True)
        self._step_pass: OnePass = Pass(model, variants, self.state, 1)
        self._step_stream = self.token
        self._served = 0

    def capture(self) -> None:
        self.step = capture_graph(self._step, self.device)

    def fits(self, batch: int, prompt: int, tokens: int) -> bool:
        return self.prompts.fits(batch, prompt, tokens)

    def rotates_alike(self, length: int) -> bool:
        return self.model.rotates_alike(length, self.capacity)

    def prefill(self, prompt: Tensor) -> None:
        """Runs the prompt [b, length] in its bucket's graph. Captures the graph at first use."""
        self._served = prompt.shape[1]
        self.prompts.read(prompt)

    def reader(self, length: int, tokens: int) -> TokenReader:
        """See `Session.reader`. Captures that length's bucket first, whose warm-up writes ids into `seen`."""
        self.prompts.capture(length)
        seen = self.state.seen
        return super().reader(length, tokens) if seen is None else SeenReader(seen, length, tokens)

    def teacher_forced_logits(self, ids: Tensor) -> Tensor:
        """Logits by the prompt's pass and by decode steps (`prompt_length`). Raises RuntimeError when a token that the
        plan's head chose is not the best by these logits.
        """
        length = prompt_length(ids.shape[1], self._served, self.variants.lossy)
        stream = self.prompts.read(ids[:, :length])
        streams = [stream.view(self.batch, -1, stream.shape[-1])[:, :length].clone()]
        chosen = [self.token.clone()]
        for at in range(length, ids.shape[1]):
            self.token.copy_(ids[:, at : at + 1])
            if self.state.stream is not None:
                self.state.stream.copy_(F.embedding(ids[:, at], self.model.embedding))
            self.step()
            streams.append(self._step_stream[:, None].clone())
            chosen.append(self.token.clone())
        logits = self._step_pass.head.logits(torch.cat(streams, dim=1))
        check_chosen(logits[:, length - 1 :], torch.cat(chosen, dim=1))
        return logits

    def _step(self) -> None:
        self._step_stream = self._step_pass.run(self.token)


def check_chosen(logits: Tensor, tokens: Tensor) -> None:
    """Raises RuntimeError unless each of tokens [b, n] has the largest of logits [b, n, vocab], within TOKEN_SLACK."""
    inside = (tokens >= 0) & (tokens < logits.shape[-1])
    own = logits.gather(-1, tokens.clamp(0, logits.shape[-1] - 1)[..., None])[..., 0]
    short = (logits.amax(-1) - own) / logits.abs().amax().clamp_min(1e-30)
    wrong = int((~inside | (short > TOKEN_SLACK)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {tokens.numel()} tokens that the head chose are not the best by their logits")


class TensorParallelRunner(KernelsRunner):
    """Every op is torch's own, so its logits are the reference for a model that no single GPU can hold."""

    name = "sharded"

    def __init__(self, sharded: TensorParallelModel) -> None:
        super().__init__(sharded.shards[0])
        self._sharded = sharded

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        return TensorParallelSession(self._sharded, batch, max(capacity, bucket(prompt)))

    def close(self) -> None:
        del self._sharded
        super().close()


class TensorParallelSession(KernelsSession):
    """A `KernelsSession` over all ranks: one graph for a step and one for each bucket of prompt lengths."""

    def __init__(self, sharded: TensorParallelModel, batch: int, capacity: int) -> None:
        Session.__init__(self, sharded.device, batch, capacity)
        ranks = [self._rank(Decoder(shard)) for shard in sharded.shards]
        self.model, self.variants, self.state = ranks[0]
        self.prompts = TensorParallelPrompts(ranks, whole=True)
        self._devices = [rank.device for rank in ranks]
        self._step_pass = self._steps = TensorParallelPass(ranks, 1)
        self._step_stream = self.token
        self._served = 0

    def _rank(self, model: Decoder) -> RankShard:
        device = model.embedding.device
        with device_guard(device):
            cos, sin = model.rope_table(self.capacity)
            token = self.token if device == self.device else torch.zeros_like(self.token, device=device)
            position = torch.zeros(1, dtype=torch.int64, device=device)
            state = State(self.batch, self.capacity, cos, sin, model.cache(self.batch, self.capacity), position, token)
        return RankShard(model, BoundVariants([], GPUS["cpu"]), state)

    def capture(self) -> None:
        self.step = capture_graph_of_several(self._step, self._devices)

    def teacher_forced_logits(self, ids: Tensor) -> Tensor:
        logits = super().teacher_forced_logits(ids)
        self.prompts.check()
        self._steps.all_reduce.check()
        return logits
