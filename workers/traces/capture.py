"""Traces one request with torch.profiler in the model's words, and counts the operations of a second one."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Protocol

import torch
from torch.autograd.profiler import record_function
from torch.nn.modules.conv import _ConvNd as Convolution
from torch.profiler import ProfilerActivity, profile
from transformers import cache_utils
from transformers.pytorch_utils import Conv1D

from kernels.model.striped_hyena import LongConvolution
from kernels.model.tensor_parallel import shards_of
from kernels.model.tensor_parallel_modules import PartialSum
from kernels.runners import Generation, Runner
from workers.traces.labels import ALL_REDUCE, CONVOLUTION, TraceScope, tail_of
from workers.traces.op_counter import CountedOp, OpCounter


def count(model: torch.nn.Module, generates: bool, request: Callable[[], object]) -> list[CountedOp]:
    """The operations of one request at their shapes; `request` runs `model` eagerly. Of several GPUs: the first's."""
    first, *others = shards_of(model)
    kv_heads = getattr(getattr(first, "config", None), "num_key_value_heads", None)
    counter = OpCounter(kv_heads, first.device if others else None)
    with Scopes(model, counter, generates), counter:
        request()
    return counter.counted


def trace(
    model: torch.nn.Module, generates: bool, request: Callable[[], object], path: Path, marked: bool = True
) -> Path:
    """The Chrome trace of one request at `path`, with `model`'s operations marked in it if `marked`.

    A `.json.gz` takes torch four times as long as the rest: it compresses line by line, as tightly as it can.
    Nothing is marked in compiled models: hooks would have them compiled anew.
    """
    activities = [ProfilerActivity.CPU]
    on_gpu = next(model.parameters()).is_cuda
    if on_gpu:
        activities.append(ProfilerActivity.CUDA)
    scopes = Scopes(model, Recorder(), generates) if marked else nullcontext()
    with scopes, profile(activities=activities) as profiler:
        request()
        if on_gpu:
            torch.cuda.synchronize()
    profiler.export_chrome_trace(str(path))
    return path


REQUESTS_TIMED = 3


def answer(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Generation:
    """The answer to one request: `tokens` tokens of a model that generates, else one forward pass over the prompt."""
    return runner.generate(prompt, tokens) if generates else runner.encode(prompt)


def wall_ms(answered: Generation) -> float:
    """Milliseconds from the request's start to its last token."""
    return (answered.times_ns[-1] - answered.start_ns) / 1e6


def median_ms(answers: Sequence[Generation]) -> float:
    return median(map(wall_ms, answers))


def request(runner: Runner, prompt: torch.Tensor, tokens: int, generates: bool) -> Callable[[], float]:
    """A function that makes one request and returns its time in ms."""
    return lambda: wall_ms(answer(runner, prompt, tokens, generates))


class Watcher(Protocol):
    """An observer that is called when a scope of a running model opens and closes, with its tensors."""

    def opened(self, scope: TraceScope) -> None: ...

    def closed(self, scope: TraceScope, module: Any, inputs: Any, outputs: Any) -> None: ...


class Recorder:
    """A watcher that writes each scope into torch.profiler's trace."""

    def __init__(self) -> None:
        self._open: list[record_function] = []

    def opened(self, scope: TraceScope) -> None:
        record = record_function(scope.record)
        record.__enter__()
        self._open.append(record)

    def closed(self, scope: TraceScope, module: Any, inputs: Any, outputs: Any) -> None:
        self._open.pop().__exit__(None, None, None)


class Scopes(AbstractContextManager["Scopes"]):
    """Inside the block, `watcher` sees every module of `model`, its rotary embedding, its cache and each pass.

    A pass whose last input dimension is 1 is a decode step; others are the prefill of a decoder, or the forward of
    anything else. Compiled models and CUDA graphs do not call modules: run the eager model inside.
    """

    def __init__(self, model: torch.nn.Module, watcher: Watcher, generates: bool) -> None:
        self._model, self._watcher, self._generates = model, watcher, generates
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> "Scopes":
        find_head: Any = getattr(self._model, "get_output_embeddings", lambda: None)
        head = find_head()
        for path, module in self._model.named_modules():
            self._hook(module, module_scope(path, module, module is head))
        self._hook_steps()
        for namespace in {sys.modules[type(module).__module__] for module in self._model.modules()}:
            if hasattr(namespace, "apply_rotary_pos_emb"):
                self._wrap(namespace, "apply_rotary_pos_emb", TraceScope("unit", "rope"))
        self._wrap(cache_utils.Cache, "update", TraceScope("unit", "kv cache update"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self._undo):
            undo()

    def _hook_steps(self) -> None:
        def before(module: Any, args: Any, kwargs: Any) -> None:
            self._watcher.opened(self._step(args, kwargs))

        def after(module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
            self._watcher.closed(self._step(args, kwargs), None, None, None)

        self._undo.append(self._model.register_forward_pre_hook(before, with_kwargs=True, prepend=True).remove)
        self._undo.append(self._model.register_forward_hook(after, with_kwargs=True).remove)

    def _step(self, args: Any, kwargs: Any) -> TraceScope:
        if not self._generates:
            return TraceScope("step", "forward")
        ids = kwargs.get("input_ids", args[0] if args else None)
        single = ids is not None and ids.shape[-1] == 1
        return TraceScope("step", "decode" if single else "prefill")

    def _hook(self, module: torch.nn.Module, scope: TraceScope) -> None:
        def before(module: Any, args: Any) -> None:
            self._watcher.opened(scope)

        def after(module: Any, args: Any, kwargs: Any, outputs: Any) -> None:
            self._watcher.closed(scope, module, (args, kwargs), outputs)

        self._undo.append(module.register_forward_pre_hook(before).remove)
        self._undo.append(module.register_forward_hook(after, with_kwargs=True).remove)

    def _wrap(self, owner: Any, name: str, scope: TraceScope) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._watcher.opened(scope)
            outputs = original(*args, **kwargs)
            self._watcher.closed(scope, None, (args, kwargs), outputs)
            return outputs

        setattr(owner, name, wrapped)
        self._undo.append(lambda: setattr(owner, name, original))


def module_scope(path: str, module: torch.nn.Module, is_head: bool = False) -> TraceScope:
    """The scope of a module: a unit when it has no children, by what it is."""
    tail, owner = tail_of(path), type(module).__name__
    if is_head:
        return TraceScope("unit", "lm_head", owner)
    if isinstance(module, torch.nn.Linear | Conv1D):
        return TraceScope("unit", f"linear {tail}", owner)
    if isinstance(module, PartialSum):
        return TraceScope("unit", ALL_REDUCE, owner)
    if isinstance(module, Convolution | LongConvolution):
        return TraceScope("unit", f"{CONVOLUTION}{tail}", owner)
    if "Norm" in owner:
        return TraceScope("unit", "norm final" if tail == "norm" else f"norm {tail}", owner)
    if isinstance(module, torch.nn.Embedding):
        return TraceScope("unit", f"embedding {tail}", owner)
    if next(module.children(), None) is None and next(module.parameters(), None) is None:
        return TraceScope("unit", "rope angles" if "Rotary" in owner else f"activation {tail}", owner)
    return TraceScope("own", tail, owner)
