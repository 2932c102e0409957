"""Throughput and times of the paged engine of `kernels/server`, in process: no HTTP, no process of its own, no peer.

    python -m benchmarks.serve_engine --model llama-3.2-1b [--weights bf16 int8 int4] --json serve-in-process.json

Requests of one length come in a closed loop, so many at once, each replaced when it ends. Some of the answers are held
against the logits of transformers' eager model. `step_ms` of a row is the time in which the loop launches a step and
reads the one before. With `--stored` the model's weights are those of a checkpoint in fp8 or in that form of int4, its
LM head in bf16: fp8 or int4 then serves their codes, and all other passes their values.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernels import runners as models
from kernels.measure.environment import environment_info
from kernels.model_files import catalogue
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.proof.served_ids import logit_gaps
from kernels.quant import scaled
from kernels.quant.formats import INT4
from kernels.quant.quantised_matrix import QUANTISERS, STORED_ROWS, STORED_SCALES, STORED_ZEROS
from kernels.server.execution.backend import KernelsBackend
from kernels.server.execution.building import build_backends
from kernels.server.execution.engine import Backend, Engine
from kernels.server.execution.megakernel_backend import MegakernelBackend
from kernels.server.execution.served_plans import FP8_VARIANTS, MEGAKERNEL
from kernels.server.execution.server_config import ServerConfig
from kernels.server.execution.sizing import RequestedSize
from kernels.server.scheduler.requests import Request

ROUNDS = 20
"""Requests for each that is served at once."""
JUDGED = 8
"""Answers that are held against the model's logits."""


@dataclass
class Times:
    """Seconds of one load: of the whole, of the loop's steps, and of each request to its first and last token."""

    wall: float = 0.0
    steps: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)


def load(engine: Engine, requests: Sequence[Request], at_once: int) -> Times:
    times, waiting, sent, seen = Times(), list(requests)[::-1], dict[str, float](), set[str]()
    began = time.monotonic()
    while waiting or not engine.idle:
        while waiting and len(sent) < at_once:
            request = waiting.pop()
            sent[request.name] = time.monotonic()
            engine.add(request)
        before = time.monotonic()
        tokens = engine.run_step()
        now = time.monotonic()
        times.steps.append(now - before)
        for request, _, reason, _ in tokens:
            if request.name not in seen:
                seen.add(request.name)
                times.first.append(now - sent[request.name])
            if reason:
                times.last.append(now - sent.pop(request.name))
    times.wall = time.monotonic() - began
    return times


def percentiles_ms(values: Sequence[float], *percents: int) -> dict[str, float]:
    """Percentiles in ms, by nearest rank."""
    ranked = sorted(values)
    return {
        f"p{percent}": round(1000 * ranked[min(len(ranked) - 1, len(ranked) * percent // 100)], 3)
        for percent in percents
    }


@dataclass
class Bench:
    """Prepared backends, and the traffic: requests of `prompt` ids with `tokens` made of each."""

    name: str
    model: Any
    backends: list[Backend]
    weights: str
    prompt: int
    tokens: int
    rounds: int
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    def requests(self, count: int) -> list[Request]:
        vocabulary = self.model.config.vocab_size
        return [
            Request(str(number), [self.draw.randrange(vocabulary) for _ in range(self.prompt)], self.tokens)
            for number in range(count)
        ]

    def row(self, at_once: int) -> dict[str, Any]:
        """One concurrency: served once to warm up, then measured, then judged."""
        load(Engine(self.backends), self.requests(2 * at_once), at_once)
        own, requests = Engine(self.backends), self.requests(self.rounds * at_once)
        times = load(own, requests, at_once)
        judged = self.judged(self.draw.sample(requests, min(JUDGED, len(requests))))
        case = {"model": self.name, "weights": self.weights, "prompt": self.prompt, "tokens": self.tokens}
        case |= {"transport": "in process", "arrivals": "closed loop", "requests": len(requests)}
        return {
            "op": "serve",
            "case": {"op": "serve", **case},
            "concurrency": at_once,
            "variant": "kernels and megakernel" if len(self.backends) > 1 else "kernels",
            "peer": False,
            **judged,
            "tokens_per_second": round(self.tokens * len(requests) / times.wall, 1),
            "ttft_ms": percentiles_ms(times.first, 50, 99),
            f"ttf{self.tokens}_ms": percentiles_ms(times.last, 50, 99),
            "step_ms": percentiles_ms(times.steps, 10, 50, 90, 99),
            "steps": own.steps,
            "megakernel_steps": own.steps - own.steps_of[-1],
            "preempted": own.scheduler.preempted,
        }

    def judged(self, requests: Sequence[Request]) -> dict[str, Any]:
        """Whether the answers are the model's, with the mean and the largest logit gap."""
        eager, device = models.runner("eager", self.model), self.model.device
        judged = [
            logit_gaps(
                eager,
                torch.tensor([request.ids[: request.prompt_length]], device=device),
                [request.ids[request.prompt_length :]],
            )
            for request in requests
        ]
        rounded = "bf16" if self.weights == "fp8" else self.weights  # fp8 is the checkpoint's own
        refusals = [gap.refusal(MAX_DIFFERENCE[rounded]) for gap in judged]
        gaps = {"mean": statistics.mean(gap.mean for gap in judged), "largest": max(gap.largest for gap in judged)}
        return {"gate": "fail" if any(refusals) else "pass", "logit_gaps": gaps}


@torch.no_grad()
def store(model: Any, form: str) -> None:
    """Gives the layers' products the values, scales and zeros of weights that were stored in fp8 or a form of int4."""
    for module in model.model.layers.modules():
        if isinstance(module, torch.nn.Linear) and form == "fp8":
            codes, scales = scaled.of_w(module.weight, "row")
            module.weight.copy_(codes.float() * scales)
            setattr(module.weight, STORED_ROWS, scales[:, 0])
        elif isinstance(module, torch.nn.Linear):
            quantised = QUANTISERS[form](module.weight)
            module.weight.copy_(quantised.values())
            setattr(module.weight, STORED_SCALES, quantised.block_scales)
            setattr(module.weight, STORED_ZEROS, quantised.zeros)


def choices(backends: Sequence[Backend]) -> dict[str, Any]:
    """What was timed to choose how a pass is arranged, and up to how many sequences the megakernel takes a step."""
    chosen: dict[str, Any] = {}
    for backend in backends:
        if isinstance(backend, KernelsBackend):
            timed = backend.timed.items()
            chosen["pass_ms"] = [{"decodes": by.decodes, "rows": by.rows, **times} for by, times in timed]
        elif isinstance(backend, MegakernelBackend):
            chosen["change_over"] = {
                "sequences": backend.max_num_seqs,
                "token_ms": backend.timed,
                "tokens_a_launch": backend.count,
            }
    return chosen


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama-3.2-1b", choices=catalogue.names())
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--max-model-len", type=int, help="tokens of a sequence (default: a prompt and its answer)")
    parser.add_argument("--no-megakernel", action="store_true", help="the kernels take steps of few requests as well")
    parser.add_argument(
        "--weights", nargs="+", choices=("bf16", "int8", "int4", "fp8"), help="default: the model's own"
    )
    parser.add_argument(
        "--stored", choices=("fp8", *INT4), help="fp8, or the form of int4, of the checkpoint's weights"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="requests for each that is served at once")
    options = parser.parse_args(arguments)
    dtype = "bf16" if torch.cuda.is_available() else "fp32"
    model: Any = models.load(None, catalogue.entry(options.model)[0], generated=True, dtype=dtype)
    if options.stored:
        store(model, options.stored)
    size = RequestedSize(options.max_model_len or options.prompt + options.tokens, max(options.at_once))
    document: dict[str, Any] = environment_info(device=model.device.type) | {"rows": []}
    for weights in options.weights or [dtype]:
        lower = "" if weights == dtype else weights
        exclude = [*([MEGAKERNEL] if options.no_megakernel else []), *(() if lower else FP8_VARIANTS)]
        prepared = build_backends(model, ServerConfig(size, weights=lower, exclude=exclude))
        document[weights] = choices(prepared)
        bench = Bench(options.model, model, prepared, weights, options.prompt, options.tokens, options.rounds)
        for at_once in options.at_once:
            row = bench.row(at_once)
            row["case"] |= {"checkpoint": options.stored} if options.stored else {}
            document["rows"].append(row)
            rate, step = row["tokens_per_second"], row["step_ms"]["p50"]
            gaps = f"gaps {row['logit_gaps']['mean']:.2g} on average"
            print(
                f"{weights}, {at_once} at once: {rate:,.0f} tokens/s, step {step} ms, {row['gate']}, {gaps}", flush=True
            )
            options.json.write_text(json.dumps(document, indent=1) + "\n")
        del prepared, bench
        models.free()
    return int(any(row["gate"] != "pass" for row in document["rows"]))


if __name__ == "__main__":
    raise SystemExit(main())
