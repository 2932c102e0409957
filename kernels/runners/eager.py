"""The baseline: transformers' own generate, greedy, with a dynamic cache."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

from kernels.model.inputs import forward_inputs, output_tensor, zeros
from kernels.model.loading import kind_of
from kernels.ops.sampling import Sampling, Samplings, expand_samplings, sample_token
from kernels.runners.base import Generation, Runner, check_request

MAX_ELEMENTS = 1 << 28
"""The most elements of a linear layer's weight that are in float32 at once: 1 GiB."""


class _TokenClock(BaseStreamer):
    """Stamps each step's ids when generate gives them to the host. The first call carries the prompt."""

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        if self._prompt_seen:
            self.times_ns.append(time.monotonic_ns())
        self._prompt_seen = True

    def end(self) -> None:
        pass


class _Drawn(LogitsProcessor):
    """Masks all logits but that of the token which `kernels.ops.sampling` draws, so that greedy generation takes it."""

    def __init__(self, sampling: list[Sampling]) -> None:
        self._sampling = sampling

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        rows = zip(scores.float().cpu().numpy(), self._sampling, strict=True)
        drawn = torch.tensor([sample_token(row, how, input_ids.shape[1]) for row, how in rows], device=scores.device)
        return torch.full_like(scores, float("-inf")).scatter_(1, drawn[:, None], 0.0)


class EagerRunner(Runner):
    """transformers' `generate`, op by op. The host reads the ids at every step, as a streaming server does."""

    name = "eager"

    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        ids = zeros(self.model, batch, prompt)
        for _ in range(2):
            if kind_of(self.model) == "decoder":
                self.generate(ids, min(tokens, 4))
            else:
                self.encode(ids)

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor, tokens: int, sampling: Samplings = None) -> Generation:
        check_request(prompt, tokens)
        how = expand_samplings(sampling, len(prompt))
        drawn = [] if all(sampling.greedy for sampling in how) else [_Drawn(how)]
        clock = _TokenClock()
        config = GenerationConfig(
            do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens, eos_token_id=None, pad_token_id=0
        )
        start_ns = time.monotonic_ns()
        ids = prompt.to(self.model.device)
        out = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=config,
            streamer=clock,
            logits_processor=LogitsProcessorList(drawn),
        )
        return Generation(out[:, prompt.shape[1] :].tolist(), clock.times_ns, start_ns)

    @torch.no_grad()
    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        return output_tensor(self.model(**forward_inputs(self.model, ids)))

    @torch.no_grad()
    def encode(self, ids: torch.Tensor) -> Generation:
        start_ns = time.monotonic_ns()
        out = output_tensor(self.model(**forward_inputs(self.model, ids)))
        out.flatten()[0].item()
        return Generation([], [time.monotonic_ns()], start_ns, output=out)


class Float32Runner(EagerRunner):
    """`logits` of token ids are those of the model with its weights cast to float32, and with float32 activations.

    The memory of one module's weights in float32 is taken beside the model, such as a layer's experts; of an embedding
    that of the rows which are read, and of a linear layer MAX_ELEMENTS at a time. Weights keep their memory, so CUDA
    graphs that read them stay valid.
    """

    @torch.no_grad()
    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        with in_float32(self.model):
            return super().logits(ids)


@contextmanager
def in_float32(model: torch.nn.Module) -> Iterator[None]:
    """Inside the block every module with weights of its own runs with these in float32."""
    handles, by_rows = [], list[torch.nn.Module]()
    for module in model.modules():
        if type(module) is torch.nn.Embedding:
            handles.append(module.register_forward_hook(lambda *args: args[-1].float()))
            continue
        if type(module) is torch.nn.Linear and module.weight.numel() > MAX_ELEMENTS:
            module.forward = partial(_linear_by_rows, module)  # type: ignore[method-assign]
            by_rows.append(module)
            continue
        tensors = [
            own_tensor
            for own_tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
            if own_tensor.is_floating_point() and own_tensor.dtype != torch.float32
        ]
        if tensors:
            values = [tensor.data for tensor in tensors]
            handles += [
                module.register_forward_pre_hook(lambda *_, own=tensors: _set(own, [tensor.float() for tensor in own])),
                module.register_forward_hook(
                    lambda *_, own=tensors, values=values: _set(own, values), always_call=True
                ),
            ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in by_rows:
            del module.forward


def _linear_by_rows(module: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """The module's output in float32, from a block of its weight's rows after the other."""
    rows = max(1, MAX_ELEMENTS // module.in_features)
    blocks = module.weight.split(rows)
    biases = [None] * len(blocks) if module.bias is None else [block.float() for block in module.bias.split(rows)]
    return torch.cat([F.linear(x, block.float(), bias) for block, bias in zip(blocks, biases, strict=True)], dim=-1)


def _set(tensors: list[torch.Tensor], values: list[Any]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.data = value.data
