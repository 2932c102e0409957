"""Where the time of one captured step of the server goes, by its kernels.

    python -m benchmarks.serve_kernels --model qwen2.5-1.5b --steps 32+0 32+128 --json serve-kernels.json

`32+128` is a pass of 32 decodes beside 128 tokens of prompts. Passes of no other shape are captured. Each pass is
timed as the engine runs it, without a profiler. Then torch's profiler (CUPTI) records some of its replays. Kernels
overlap, since dependent launches begin early. So the time of a kernel is that from the end of the one that ended before
it to its own end: these add up to the pass. `busy_us_a_call` is the time from a kernel's own beginning to its end. On a
CPU the rows have torch's operators, which only shows that this script runs.

`heads_ms` are the ms of passes of up to 16 decodes alone, greedy (`argmax`) and with top-k and top-p (`top_k_p`). Each
is timed with an end of logits and a draw, and with an LM head.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernels import runners as models
from kernels.measure.environment import environment_info
from kernels.measure.gpu_entry import gpu_of
from kernels.model.decoder import Decoder
from kernels.model.experts import Experts
from kernels.model_files import catalogue
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.compiling import compile_together, pass_builds
from kernels.server.execution.shapes import smallest_holding
from kernels.server.execution.sizing import RequestedSize, limits_for
from kernels.server.scheduler.requests import Request, ScheduledTokens, Step

TIMED, RECORDED = 20, 3
"""Steps that are timed, and steps that the profiler records."""
LONGEST_NAME, SHOWN = 120, 14
"""Characters of a kernel's name that are kept, and kernels that are printed."""


class Span(NamedTuple):
    """A kernel as it ran: its name, and when, in µs."""

    name: str
    begin: float
    end: float


@dataclass
class KernelTime:
    calls: int = 0
    us: float = 0.0
    busy_us: float = 0.0
    places: list[int] = field(default_factory=list)

    def document(self, name: str, passes: int) -> dict[str, Any]:
        """As it is written: of one pass. `first` is its first place in the pass."""
        return {
            "kernel": name[:LONGEST_NAME],
            "calls": round(self.calls / passes, 2),
            "us": round(self.us / passes, 2),
            "us_a_call": round(self.us / self.calls, 3),
            "busy_us_a_call": round(self.busy_us / self.calls, 3),
            "first": min(self.places),
        }


def by_kernel(replays: Sequence[Sequence[Span]]) -> list[dict[str, Any]]:
    """The time of each kernel in one of the replays, the longest first. That of the first one is its own duration."""
    by_kernel_name: dict[str, KernelTime] = defaultdict(KernelTime)
    for spans in replays:
        ended = min(other.begin for other in spans)
        for place, span in enumerate(sorted(spans, key=lambda span: span.end)):
            own = by_kernel_name[span.name]
            own.calls += 1
            own.us += span.end - ended
            own.busy_us += span.end - span.begin
            own.places.append(place)
            ended = span.end
    rows = [times.document(name, len(replays)) for name, times in by_kernel_name.items()]
    return sorted(rows, key=lambda row: -row["us"])


@dataclass(frozen=True)
class MeasuredStep:
    """A step such as `32+128`: decodes of sequences of `length` tokens beside prompts of `prompt` tokens."""

    decodes: int
    tokens: int

    @classmethod
    def of(cls, text: str) -> "MeasuredStep":
        decodes, tokens = map(int, text.split("+"))
        return cls(decodes, tokens)

    def step(self, backend: KernelsBackend, length: int, prompt: int) -> Step:
        """The step, over pages that no two of its requests share."""
        limits = backend.limits
        pages, free = -(-max(length, prompt) // limits.page_size), iter(range(1, limits.pages))
        step = Step()
        sizes = [(1, length)] * self.decodes + [
            (min(prompt, self.tokens - at), prompt) for at in range(0, self.tokens, prompt)
        ]
        for slot, (tokens, whole) in enumerate(sizes):
            request = Request(str(slot), [slot] * whole, 1)
            request.slot, request.admitted, request.pages = slot, 1, list(islice(free, pages))
            parts = step.prefill_chunks if tokens > 1 else step.decodes
            parts.append(ScheduledTokens(request, whole - tokens, tokens, True, whole))
        return step


def pass_ms(backend: KernelsBackend, step: Step) -> float:
    """The ms of a step as the engine runs it: each is launched before the one ahead is read."""
    backend.launch(step)
    began = time.perf_counter()
    for _ in range(TIMED):
        backend.launch(step)
        backend.read()
    backend.read()
    return (time.perf_counter() - began) * 1e3 / TIMED


def record_step(backend: KernelsBackend, step: Step) -> list[Span]:
    """What one step runs on the device; on a CPU torch's operators, without those that another one calls."""
    kinds = torch.profiler.ProfilerActivity, torch.autograd.DeviceType
    cuda = backend.device.type == "cuda"
    activity, kind = (kinds[0].CUDA, kinds[1].CUDA) if cuda else (kinds[0].CPU, kinds[1].CPU)
    with torch.profiler.profile(activities=[activity]) as profile:
        backend.launch(step)
        backend.read()
    return [
        Span(event.name, event.time_range.start, event.time_range.end)
        for event in profile.events() or []
        if event.device_type == kind and event.cpu_parent is None and not event.name.startswith(("[", "Profiler"))
    ]


def row(backend: KernelsBackend, measured: MeasuredStep, length: int, prompt: int) -> dict[str, Any]:
    """One step: its ms, the ms in which the datasheet's bandwidth reads the weights, and its kernels."""
    step, model = measured.step(backend, length, prompt), backend.model
    shape = smallest_holding(backend.shapes, step)
    ms = pass_ms(backend, step)
    replays = [record_step(backend, step) for _ in range(RECORDED)]
    matrices = [matrix for layer in model.layers for matrix in layer.streamed]
    sparse = any(isinstance(layer.mlp, Experts) for layer in model.layers)  # which experts are read, tokens decide
    weights = None if sparse else sum(matrix.nbytes for matrix in (*matrices, model.lm_head))
    return {
        "decodes": measured.decodes,
        "tokens_of_prompts": measured.tokens,
        "rows": shape.rows,
        "ms": round(ms, 4),
        "arrangements_ms": {name: round(ms, 4) for name, ms in backend.timed.get(shape, {}).items()},
        "heads_ms": {
            kind: {end: round(ms, 4) for end, ms in times.items()}
            for (timed, kind), times in backend.timed_heads.items()
            if timed == shape
        },
        "weight_bytes": weights,
        "read_ms": round(weights / backend.gpu.memory_tbps / 1e9, 4) if weights and backend.gpu.memory_tbps else None,
        "kernels": by_kernel(replays),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="qwen2.5-1.5b", choices=catalogue.names())
    parser.add_argument("--steps", nargs="+", default=["32+0", "32+128"], type=MeasuredStep.of)
    parser.add_argument("--length", type=int, default=160, help="tokens of the sequences of decodes")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    dtype = "bf16" if torch.cuda.is_available() else "fp32"
    model: Any = models.load(None, catalogue.entry(options.model)[0], generated=True, dtype=dtype)
    decoder, gpu = Decoder(model), gpu_of(model.device)
    running = max(step.decodes + -(-step.tokens // options.prompt) for step in options.steps)
    limits = limits_for(decoder, model.config, RequestedSize(max(options.length, options.prompt) + 32, running))
    decodes = sorted({step.decodes for step in options.steps})
    limits = replace(limits, mixed=tuple(decodes))
    backend = KernelsBackend(decoder, gpu, limits, decodes=[decode for decode in decodes if decode])
    steps = (step.step(backend, options.length, options.prompt) for step in options.steps)
    needed = {smallest_holding(backend.shapes, step) for step in steps}
    backend.shapes = [shape for shape in backend.shapes if shape in needed]  # no others are captured
    if decoder.embedding.is_cuda:
        compile_together(pass_builds(backend))
    backend.prepare()
    document = environment_info(device=model.device.type) | {"model": options.model, "rows": []}
    for step in options.steps:
        measured = row(backend, step, options.length, options.prompt)
        document["rows"].append(measured)
        print(
            f"{step.decodes}+{step.tokens}: {measured['ms']:.3f} ms, its weights {measured['read_ms']} ms", flush=True
        )
        for kernel in measured["kernels"][:SHOWN]:
            print("  {us:9.1f} us {calls:6.1f} calls of {us_a_call:7.2f} us  {kernel}".format(**kernel), flush=True)
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
