"""A plug-in of vLLM that times the parts of its engine's loop, for `vllm_plugin.py`. Imports nothing of this project.

Writes to the file that VLLM_PROBE names, by the number of sequences of a step of decodes: the steps, and µs a step of
each part and from one step to the next.
"""

import functools
import json
import os
import time
from typing import Any

EVERY = 200
"""Steps after which the file is written again."""
LONGEST = 0.02
"""Seconds between two steps of one load, at most."""


def register() -> None:
    """vLLM calls this in each of its processes."""
    path = os.environ.get("VLLM_PROBE")
    if not path:
        return
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.worker.gpu.async_utils import AsyncOutput
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    totals: dict[str, dict[str, float]] = {}
    state: dict[str, Any] = {"key": "", "began": 0.0, "steps": 0}

    def timed(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapper(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = inner(*given, **named)
            took = time.perf_counter() - began
            if name == "schedule":
                counts = result.num_scheduled_tokens
                decodes = result.total_num_scheduled_tokens == len(counts)
                state["key"] = f"{len(counts)}" if decodes else "with prompts"
            parts = totals.setdefault(state["key"], {})
            parts[name] = parts.get(name, 0.0) + took
            return result

        setattr(owner, name, wrapper)

    def looped(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def wrapper(*given: Any, **named: Any) -> Any:
            began, key = time.perf_counter(), state["key"]
            result = inner(*given, **named)
            if key == state["key"] and began - state["began"] < LONGEST:
                parts = totals.setdefault(key, {})
                parts["steps"] = parts.get("steps", 0) + 1
                parts["period"] = parts.get("period", 0.0) + began - state["began"]
                parts["loop"] = parts.get("loop", 0.0) + time.perf_counter() - began
            state["began"] = began
            state["steps"] += 1
            if state["steps"] % EVERY == 0:
                write()
            return result

        setattr(owner, name, wrapper)

    def write() -> None:
        summary = {}
        for key, parts in totals.items():
            if (steps := parts.get("steps", 0)) >= EVERY / 2:
                summary[key] = {
                    name: round(1e6 * value / steps, 1) if name != "steps" else value for name, value in parts.items()
                }
        with open(path, "w") as file:
            json.dump(summary, file)

    for owner, name in (
        (Scheduler, "schedule"),
        (Scheduler, "update_from_output"),
        (GPUModelRunner, "execute_model"),
        (GPUModelRunner, "prepare_inputs"),
        (GPUModelRunner, "prepare_attn"),
        (GPUModelRunner, "sample_tokens"),
        (AsyncOutput, "get_output"),
    ):
        timed(owner, name)
    looped(EngineCore, "step_with_batch_queue")
