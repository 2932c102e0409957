"""The engine's process for a model that gives vectors: texts are packed into padded batches as they come."""

import gc
import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.model_files import answer_of_config, longest_sequence
from kernels.model_files.architectures import kind_of
from kernels.model_files.sentence_transformers import SentenceModules
from kernels.server.messages import (
    AbortRequest,
    AddRequest,
    EngineOutputs,
    EngineReport,
    Ping,
    Ready,
    Refusal,
    RequestVectors,
    Stop,
)
from kernels.server.processes.lifecycle import live
from kernels.server.scheduler.requests import input_too_long
from kernels.server.spec import Spec, configuration, modules_of
from kernels.server.starting import Phases

if TYPE_CHECKING:
    from kernels.model.sentence_head import SentenceHead

MAX_ROWS, MAX_TOKENS = 64, 16_384
"""The largest batch: rows, and tokens with padding."""
ALIKE = 0.999
"""The least cosine of a text's vectors alone and beside a longer text, where the model ignores padding."""


class Waiting(NamedTuple):
    """A request that no batch has taken yet, and until when it may wait, in seconds of the monotonic clock."""

    name: str
    ids: list[int]
    deadline: float


def gives_vectors(config: dict[str, Any]) -> bool:
    """Whether a configuration is an encoder's. Imports no torch. Raises ValueError for a classifier."""
    names = config.get("architectures") or []
    reads = kind_of(str(config.get("model_type")), names, bool(config.get("is_encoder_decoder"))) == "encoder"
    if reads and answer_of_config(config).form == "classes":
        raise ValueError(f"--model: {names[0]} answers with classes; models that generate text or embed it are served")
    return reads


class Encoder:
    """A model, and what makes one vector of those that it gives for a text's tokens."""

    def __init__(self, model: Any, head: "SentenceHead", longest: int) -> None:
        self._model = getattr(model, model.base_model_prefix, model)
        self._head = head.to(model.device)
        self._device, self.longest = model.device, longest
        self.pads = self._ignores_padding(int(model.config.vocab_size))
        """Whether a batch may have texts of unlike lengths."""

    def _ignores_padding(self, vocabulary: int) -> bool:
        """Found by a batch. FNet mixes all positions, and ConvBERT and MobileBERT neighbouring ones, without a mask."""
        import torch

        short, long = ([at % vocabulary for at in range(min(size, self.longest))] for size in (5, 16))
        (alone,), (padded, _) = self.vectors([short]), self.vectors([short, long])
        return torch.nn.functional.cosine_similarity(torch.tensor(alone), torch.tensor(padded), dim=0).item() > ALIKE

    def vectors(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """One vector for each text's ids, all in one pass."""
        import torch

        width = max(map(len, texts))
        ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts], device=self._device)
        lengths = torch.tensor([len(text) for text in texts], device=self._device)
        mask = (torch.arange(width, device=self._device) < lengths[:, None]).long()
        with torch.no_grad():
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            vectors: list[list[float]] = self._head(hidden, mask).tolist()
        return vectors


def build_encoder(spec: Spec, phases: Phases) -> tuple[Encoder, Ready]:
    """The encoder, ready to serve. Raises ValueError with one sentence."""
    with phases.phase("imports"):
        gc.disable()
        import torch

        from kernels import runners
        from kernels.measure.environment import environment_info
        from kernels.model import loading  # noqa: F401  with the classes of transformers' models
        from kernels.model.sentence_head import SentenceHead
        from kernels.runners.sessions import positions

        gc.enable()
    if spec.plan is not None:
        raise ValueError("--plan: plans of models that give vectors are not served; serve the model without it")
    directory, config = configuration(spec)
    device = spec.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device: torch finds no NVIDIA GPU on this machine")
    generated = directory is None or not list(directory.rglob("*.safetensors"))
    dtype = spec.dtype or ("bf16" if device == "cuda" else "fp32")
    with phases.phase("weights"):
        model: Any = runners.load(directory, config, seed=spec.seed, generated=generated, dtype=dtype, device=device)
    max_positions = longest_sequence(
        model.config.to_dict()
    )  # without positions that are kept for padding, as RoBERTa's
    longest = min(
        positions(model.config), spec.max_model_len or MAX_TOKENS, max_positions.tokens if max_positions else MAX_TOKENS
    )
    modules = modules_of(directory) or SentenceModules()
    longest = min(longest, modules.longest or longest)
    with phases.phase("first batch"):
        encoder = Encoder(model, SentenceHead(modules, directory), longest)
    if not encoder.pads:
        print("kernels serve: padding changes the model's vectors: a batch has texts of one length", file=sys.stderr)
    name = environment_info(device=device)["device"]
    vocabulary, on_gpu = int(model.config.vocab_size), device == "cuda"
    return encoder, Ready(longest, vocabulary, name, seconds=phases.seconds, on_gpu=on_gpu)


def main(spec: Spec, connection: Connection) -> None:
    """The process's main function. Ends at `Stop`, and when the other side of the pipe is closed."""
    live(lambda phases: build_encoder(spec, phases), serve, connection)


def serve(encoder: Encoder, connection: Connection) -> None:
    """Batches until it is stopped or the pipe is closed, which raises EOFError."""
    waiting: deque[Waiting] = deque()
    report = EngineReport()
    while True:
        while not waiting or connection.poll():
            report.waiting = len(waiting)
            _take(encoder, connection, waiting, report)
        late = [item for item in waiting if item.deadline < time.monotonic()]
        if late:
            connection.send(EngineOutputs(tokens=[(item.name, None, "deadline") for item in late]))
            waiting = deque(item for item in waiting if item not in late)
            continue
        batch = next_batch(waiting, encoder.pads)
        vectors = encoder.vectors([item.ids for item in batch])
        report.steps += 1
        report.waiting = len(waiting)
        connection.send(RequestVectors({each.name: vector for each, vector in zip(batch, vectors, strict=True)}))
        connection.send(EngineOutputs(report=asdict(report)))


def _take(encoder: Encoder, connection: Connection, waiting: deque[Waiting], report: EngineReport) -> None:
    message = connection.recv()
    if isinstance(message, Stop):
        raise EOFError
    if isinstance(message, Ping):
        connection.send(EngineOutputs(report=asdict(report)))
    if isinstance(message, AbortRequest):
        for item in [item for item in waiting if item.name == message.name]:
            waiting.remove(item)
    elif isinstance(message, AddRequest):
        if len(message.ids) > encoder.longest:
            sentence = input_too_long(len(message.ids), encoder.longest)
            connection.send(EngineOutputs(refusals={message.name: Refusal(sentence, code="context_length_exceeded")}))
            return
        deadline = time.monotonic() + message.seconds if math.isfinite(message.seconds) else math.inf
        waiting.append(Waiting(message.name, message.ids, deadline))


def next_batch(waiting: deque[Waiting], pads: bool = True) -> list[Waiting]:
    """The first requests within MAX_ROWS and, padded, MAX_TOKENS, at least one; unless `pads`, of one length."""
    batch: list[Waiting] = []
    longest = 0
    while waiting and len(batch) < MAX_ROWS:
        if batch and not pads and len(waiting[0].ids) != longest:
            break
        longest = max(longest, len(waiting[0].ids))
        if batch and longest * (len(batch) + 1) > MAX_TOKENS:
            break
        batch.append(waiting.popleft())
    return batch
