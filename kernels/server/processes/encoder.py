"""The engine's process for a model that gives vectors: texts are packed into padded batches as they come."""

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernels.model_files import longest_sequence
from kernels.model_files.architectures import kind_of
from kernels.server.messages import (
    AbortRequest,
    AddRequest,
    EngineReport,
    News,
    Ping,
    Ready,
    Refusal,
    RequestVectors,
    Stop,
)
from kernels.server.processes.lifecycle import live
from kernels.server.scheduler.requests import input_too_long
from kernels.server.spec import Spec, configuration, json_object
from kernels.server.starting import Phases

if TYPE_CHECKING:
    import torch

MOST_ROWS, MOST_TOKENS = 64, 16_384
"""The largest batch: rows, and tokens with padding."""
ALIKE = 0.999
"""The least cosine of a text's vectors alone and beside a longer text, where the model ignores padding."""


class Waiting(NamedTuple):
    """A request that no batch has taken yet, and until when it may wait, in seconds of the monotonic clock."""

    name: str
    ids: list[int]
    deadline: float


def gives_vectors(config: dict[str, Any]) -> bool:
    """Whether a configuration is that of an encoder, which embeds texts and generates none. Imports no torch."""
    names = config.get("architectures") or []
    return kind_of(str(config.get("model_type")), names, bool(config.get("is_encoder_decoder"))) == "encoder"


class Encoder:
    """A model and its pooling: `mean` of the hidden states, or those of the first token, `cls`; of length 1."""

    def __init__(self, model: Any, pooling: str, longest: int) -> None:
        self._model = getattr(model, model.base_model_prefix, model)
        self._device, self.pooling, self.longest = model.device, pooling, longest
        self.pads = self._ignores_padding(int(model.config.vocab_size))
        """Whether a batch may have texts of unlike lengths."""

    def _ignores_padding(self, vocabulary: int) -> bool:
        """Found by a batch. FNet mixes all positions, and ConvBERT and MobileBERT neighbouring ones, without a mask."""
        short, long = ([at % vocabulary for at in range(min(size, self.longest))] for size in (5, 16))
        (alone,), (beside, _) = self.vectors([short]), self.vectors([short, long])
        return sum(a * b for a, b in zip(alone, beside, strict=True)) > ALIKE

    def vectors(self, texts: Sequence[Sequence[int]]) -> list[list[float]]:
        """One vector for each text's ids, all in one pass."""
        import torch

        width = max(map(len, texts))
        ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in texts], device=self._device)
        lengths = torch.tensor([len(text) for text in texts], device=self._device)
        mask = (torch.arange(width, device=self._device) < lengths[:, None]).long()
        with torch.no_grad():
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        pooled = hidden[:, 0] if self.pooling == "cls" else _mean(hidden, mask)
        normalised: list[list[float]] = torch.nn.functional.normalize(pooled, dim=-1).tolist()
        return normalised


def _mean(hidden: "torch.Tensor", mask: "torch.Tensor") -> "torch.Tensor":
    weights = mask[..., None].float()
    return (hidden * weights).sum(1) / weights.sum(1)


def pooling_of(directory: Path | None) -> str:
    """`cls` where the model's files for sentence-transformers say so, otherwise `mean`. Raises ValueError."""
    path = directory / "1_Pooling" / "config.json" if directory else None
    if path is None or not path.is_file():
        return "mean"
    config = json_object(path)
    chosen = [name for name, value in config.items() if name.startswith("pooling_mode_") and value is True]
    known = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    if len(chosen) != 1 or chosen[0] not in known:
        raise ValueError(f"{path}: this server pools by {' or '.join(known)}, not by {', '.join(chosen) or 'nothing'}")
    return known[chosen[0]]


def build_encoder(spec: Spec, phases: Phases) -> tuple[Encoder, Ready]:
    """The encoder, ready to serve. Raises ValueError with one sentence."""
    with phases.phase("imports"):
        import torch

        from kernels import runners
        from kernels.measure.environment import environment_info
        from kernels.model import loading  # noqa: F401  with the classes of transformers' models
        from kernels.runners.bucket_session import positions

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
    own = longest_sequence(model.config.to_dict())  # without positions that are kept for padding, as RoBERTa's
    longest = min(positions(model.config), spec.max_model_len or MOST_TOKENS, own.tokens if own else MOST_TOKENS)
    with phases.phase("first batch"):
        encoder = Encoder(model, pooling_of(directory), longest)
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
        late = [each for each in waiting if each.deadline < time.monotonic()]
        if late:
            connection.send(News(tokens=[(each.name, None, "deadline") for each in late]))
            waiting = deque(each for each in waiting if each not in late)
            continue
        batch = next_batch(waiting, encoder.pads)
        vectors = encoder.vectors([each.ids for each in batch])
        report.steps += 1
        report.waiting = len(waiting)
        connection.send(RequestVectors({each.name: vector for each, vector in zip(batch, vectors, strict=True)}))
        connection.send(News(report=asdict(report)))


def _take(encoder: Encoder, connection: Connection, waiting: deque[Waiting], report: EngineReport) -> None:
    message = connection.recv()
    if isinstance(message, Stop):
        raise EOFError
    if isinstance(message, Ping):
        connection.send(News(report=asdict(report)))
    if isinstance(message, AbortRequest):
        for each in [each for each in waiting if each.name == message.name]:
            waiting.remove(each)
    elif isinstance(message, AddRequest):
        if len(message.ids) > encoder.longest:
            sentence = input_too_long(len(message.ids), encoder.longest)
            connection.send(News(refusals={message.name: Refusal(sentence, code="context_length_exceeded")}))
            return
        deadline = time.monotonic() + message.seconds if math.isfinite(message.seconds) else math.inf
        waiting.append(Waiting(message.name, message.ids, deadline))


def next_batch(waiting: deque[Waiting], pads: bool = True) -> list[Waiting]:
    """The first requests, as many as fit into MOST_ROWS and, padded to the longest, MOST_TOKENS; one at least. If not
    `pads`, all have one length.
    """
    batch: list[Waiting] = []
    longest = 0
    while waiting and len(batch) < MOST_ROWS:
        if batch and not pads and len(waiting[0].ids) != longest:
            break
        longest = max(longest, len(waiting[0].ids))
        if batch and longest * (len(batch) + 1) > MOST_TOKENS:
            break
        batch.append(waiting.popleft())
    return batch
