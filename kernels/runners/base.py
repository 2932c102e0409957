"""Runners: one interface for every way to run a model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from kernels.ops.sampling import Samplings

if TYPE_CHECKING:
    import torch


@dataclass
class Generation:
    """What one request gave.

    `tokens` [batch][new_tokens] ids; `times_ns` [new_tokens] the host's monotonic clock when that step's ids could be
    read by the host; `start_ns` the same clock when the request was handed in. `output` is what `encode` computed, as
    `Runner.logits` gives it; the next call may overwrite it.
    """

    tokens: list[list[int]]
    times_ns: list[int]
    start_ns: int
    extra: dict[str, Any] = field(default_factory=dict)
    output: "torch.Tensor | None" = None


def check_request(prompt: "torch.Tensor", tokens: int) -> None:
    """Checks a request: `prompt` [batch, length] of ids, no dimension 0, `tokens` >= 1, but not the ids, which would
    wait for the GPU. Raises ValueError that names the argument.
    """
    if prompt.dim() != 2 or not prompt.numel():
        raise ValueError(f"prompt: [batch, length] with a token or more is needed, not {list(prompt.shape)}")
    if prompt.is_floating_point() or prompt.is_complex():
        raise ValueError(f"prompt: ids are whole numbers, not {prompt.dtype}")
    if tokens < 1:
        raise ValueError(f"tokens: at least one is made, not {tokens}")


def prompt_length(length: int, served: int, lossy: bool = False) -> int:
    """How many of `length` teacher-forced ids the prompt's pass reads; decode steps read the others.

    As many as the last prompt that was `served`. Half of the ids where these do not go beyond it, or where the plan is
    `lossy`: either path may be wrong, or lose accuracy.
    """
    half = max(1, length // 2)
    return half if lossy or not 0 < served < length else served


class Runner(ABC):
    """A model made ready on one device, for many calls. `prepare` compiles for one traffic, never timed."""

    name: ClassVar[str]
    gives_logits: ClassVar[bool] = True
    """Whether `logits` is available. A runner without logits is judged by its ids alone."""
    starts_process: ClassVar[bool] = False
    """Whether `prepare` starts a fresh process that the model then runs in."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Settings that another engine reports after `prepare`; empty for this library's own runners."""

    def __init__(self, model: "torch.nn.Module", options: dict[str, Any] | None = None) -> None:
        self.model: Any = model
        self.options = options or {}

    @abstractmethod
    def prepare(self, batch: int, prompt: int, tokens: int) -> None:
        """Compiles, captures and warms up for [batch, prompt] prompts and `tokens` new tokens."""

    @abstractmethod
    def generate(self, prompt: "torch.Tensor", tokens: int, sampling: Samplings = None) -> Generation:
        """Exactly `tokens` ids from `prompt` [batch, length] int64, end-of-text ignored, greedy unless `sampling` says
        otherwise. Raises ValueError where that is not served, and as `check_request` does.
        """

    @abstractmethod
    def logits(self, ids: "torch.Tensor") -> "torch.Tensor":
        """Teacher-forced logits [batch, length, vocab] of `ids`, by the code that generates (`prompt_length`), or a
        model's output.
        """

    def encode(self, ids: "torch.Tensor") -> Generation:
        """One forward pass over a main input as in `kernels.model.inputs`; `times_ns` has one entry."""
        raise ValueError(f"the {self.name} runner cannot run an encoder")

    def close(self) -> None:
        """Frees graphs and device memory; the runner cannot be used afterwards."""
        del self.model
