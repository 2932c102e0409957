"""Traces one request with torch.profiler, and counts the operations of a second one."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from kernels.model.tensor_parallel import parts_of
from workers.traces.op_counter import CountedOp, OpCounter
from workers.traces.scopes import Recorder, Scopes


def count(model: torch.nn.Module, generates: bool, request: Callable[[], object]) -> list[CountedOp]:
    """The operations of one request at their shapes; `request` runs `model` eagerly. Of several GPUs: the first's."""
    first, *others = parts_of(model)
    kv_heads = getattr(getattr(first, "config", None), "num_key_value_heads", None)
    counter = OpCounter(kv_heads, first.device if others else None)
    with Scopes(model, counter, generates), counter:
        request()
    return counter.counted


def trace(
    model: torch.nn.Module, generates: bool, request: Callable[[], object], path: Path, marked: bool = True
) -> Path:
    """The Chrome trace of one request at `path` (`.json.gz`), with `model`'s operations marked in it if `marked`.

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
