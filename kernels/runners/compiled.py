"""The compiled runner: static cache, Inductor, and on a GPU one CUDA graph for the prompt and one for a step."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.cuda.graphs import capture_graph
from kernels.model import decoder
from kernels.model.experts import has_experts
from kernels.model.inputs import forward_inputs, output_tensor, place_input, zeros
from kernels.model.loading import kind_of
from kernels.model.prompts import CAPACITY_STEP
from kernels.ops.sampling import Samplings, expand_samplings
from kernels.runners.base import Generation, Runner, check_request
from kernels.runners.sessions import DecoderSession, ModuleSession, Session

_MODES = {"max-autotune": "max-autotune-no-cudagraphs", "reduce-overhead": None, "default": None}
"""CUDA graphs are captured by this module, never by torch.compile, in every mode."""


def as_modules(model: Any) -> bool:
    """Whether a model is compiled as transformers' own modules, and not as the compact decoder.

    Mixtures of experts are: transformers' products of experts compile as a whole, those of the decoder do not.
    """
    return has_experts(model.config) or decoder.refusal(model) is not None


class _Encoder(NamedTuple):
    """A captured forward pass of one shape: the graph, its input buffers and its outputs."""

    ids: Tensor
    inputs: dict[str, Tensor]
    run: Callable[[], object]
    outputs: list[Tensor]


class CompiledRunner(Runner):
    """Options: `compile` (True; False captures the eager ops), `mode` (of torch.compile), `inductor` (its options).

    The host launches step i + 1 before it reads and stamps the id of step i.
    """

    name = "compiled"

    def __init__(
        self,
        model: torch.nn.Module,
        options: dict[str, Any] | None = None,
        linear: decoder.Linear | None = None,
        attention: decoder.Attention | None = None,
    ) -> None:
        """`linear` and `attention` are a plan's variants; they need the compact decoder."""
        super().__init__(model, options)
        self._linear, self._attention = linear, attention
        self._session: Session | None = None
        self._encoders: dict[tuple[int, ...], _Encoder] = {}

    @property
    def session(self) -> Session | None:
        """The prepared prompt pass and step; None before `prepare`, and of a model that does not generate."""
        return self._session

    @torch.no_grad()
    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        ids = zeros(self.model, batch, prompt)
        if kind_of(self.model) != "decoder":
            self.encode(ids)
            return
        self._session = None
        capacity = -(-(prompt + tokens) // CAPACITY_STEP) * CAPACITY_STEP
        self._session = self._make_session(batch, prompt, capacity)
        self._session.capture()
        self.generate(ids, tokens)

    def _make_session(self, batch: int, prompt: int, capacity: int) -> Session:
        if as_modules(self.model):
            if decoder.refusal(self.model) is None:
                decoder.Decoder(self.model)  # joins the weights; a later one would move what these graphs read
            return ModuleSession(self.model, batch, prompt, capacity, self._compile)
        compact = decoder.Decoder(self.model, pack=self._linear is None)
        return DecoderSession(
            compact, batch, prompt, capacity, self._compile, self._linear or F.linear, self._attention
        )

    def _compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self.options.get("compile", True):
            return function
        import torch._dynamo
        import torch._inductor

        torch._dynamo.config.recompile_limit = 64
        mode = _MODES.get(self.options.get("mode", "default"))
        inductor = {**(torch._inductor.list_mode_options(mode) if mode else {}), **self.options.get("inductor", {})}
        return torch.compile(function, dynamic=False, options=inductor or None)

    @torch.no_grad()
    def generate(self, prompt: Tensor, tokens: int, sampling: Samplings = None) -> Generation:
        check_request(prompt, tokens)
        batch, length = prompt.shape
        if not all(how.greedy for how in expand_samplings(sampling, batch)):
            raise ValueError(f"sampling: the {self.name} runner is greedy; the eager and megakernel runners sample")
        if self._session is None or not self._session.fits(batch, length, tokens):
            self.prepare(batch, length, tokens)
        session = self._session
        assert session is not None
        read = session.reader(length, tokens)
        start_ns = time.monotonic_ns()
        session.prefill(prompt)
        read.enqueue(session.token)
        for _ in range(tokens - 1):
            session.step()
            read.enqueue(session.token)
        rows, times_ns = read.finish()
        return Generation([list(row) for row in zip(*rows, strict=True)], times_ns, start_ns)

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """Logits from the captured calls of the prepared shape, one group of rows after the other.

        A sequence longer than the prepared cache gets a cache of its own length, compiled for it.
        """
        ids = ids.to(self.model.device)
        if kind_of(self.model) != "decoder":
            return self._encoded(ids).clone()
        session = self._session
        if session is None or ids.shape[1] > session.capacity or not session.rotates_alike(ids.shape[1]):
            self.prepare(ids.shape[0], ids.shape[1], 1)
            session = self._session
        assert session is not None
        rows = []
        for group in ids.split(session.batch):
            filled = F.pad(group, (0, 0, 0, session.batch - len(group)))
            rows.append(session.teacher_forced_logits(filled)[: len(group)])
        return torch.cat(rows)

    @torch.no_grad()
    def encode(self, ids: Tensor) -> Generation:
        start_ns = time.monotonic_ns()
        out = self._encoded(ids)
        out.flatten()[0].item()
        return Generation([], [time.monotonic_ns()], start_ns, output=out)

    def _encoded(self, ids: Tensor) -> Tensor:
        shape = tuple(ids.shape)
        if shape not in self._encoders:
            self._encoders[shape] = self._make_encoder(ids)
        encoder = self._encoders[shape]
        encoder.ids.copy_(ids, non_blocking=True)
        encoder.run()
        return encoder.outputs[0]

    def _make_encoder(self, ids: Tensor) -> _Encoder:
        buffer = place_input(self.model, ids).clone()
        inputs = forward_inputs(self.model, buffer)
        self.model.forward(**inputs)  # a first call may change the model's state: the capture would compile again
        forward = self._compile(self.model.forward)
        outputs: list[Tensor] = []

        def call() -> None:
            outputs[:] = [output_tensor(forward(**inputs))]

        return _Encoder(buffer, inputs, capture_graph(call, self.model.device), outputs)

    def close(self) -> None:
        self._session = None
        self._encoders.clear()
        super().close()
