"""The document of `bench serve`: servers under the same requests over HTTP, on one machine during one lease."""

import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from kernels.cli.bench_document import MeasuredDocument
from kernels.load.vllm_server import ServerCommand, ServerSettings
from kernels.proof.verdict import Gate

Percentiles = dict[Literal["p50", "p99"], float]


class ServeCase(BaseModel):
    """A model and its traffic. `prompt` and `tokens` are the lengths, or their medians where `lengths` says so.

    `concurrency` users of a closed loop, or `rate` requests a second. The model is sharded over `gpus`; None is one.
    The KV cache is in `kv_cache_dtype`, in the precision of the activations if that is None. `checkpoint` is the format
    that the model's files have their weights in, where they are quantised: vLLM reads these files as they are.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    op: Literal["serve"] = "serve"
    model: str
    weights: str
    prompt: int
    tokens: int
    lengths: str = "equal"
    transport: Literal["http"] = "http"
    arrivals: Literal["closed", "poisson"]
    requests: int
    concurrency: int | None = None
    rate: float | None = None
    gpus: int | None = None
    kv_cache_dtype: Literal["fp8"] | None = None
    checkpoint: str | None = None


class ServeRow(BaseModel):
    """One server under one case. Latencies are in ms, from the moment that a request was due.

    `tokens_per_second` and `requests_per_second`, those that ended, are over the steady part of `seconds`; `goodput` is
    the requests a second that kept the promise (`promise_ms`: of the first token, and of the mean time between further
    ones). `floor_ms` is the roofline's least time of 64 tokens for `concurrency` requests at once, and
    `floor_tokens_per_second` its rate. `failed` counts requests without their whole answer. `logit_gaps` are those of
    answers that were teacher-forced, in standard deviations of the logits. `generator` tells how late the load
    generator itself was at p99, in the latest of its `processes`, and `void` in a sentence that this was too late;
    `settings` how the server ran.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    op: Literal["serve"] = "serve"
    case: ServeCase
    variant: str
    peer: bool
    gate: Gate
    reason: str = ""
    tokens_per_second: float | None = None
    requests_per_second: float | None = None
    seconds: float | None = None
    ttft_ms: Percentiles | None = None
    ttf64_ms: Percentiles | None = None
    tpot_ms: Percentiles | None = None
    goodput: float | None = None
    promise_ms: dict[Literal["ttft", "tpot"], float] | None = None
    floor_ms: float | None = None
    floor_tokens_per_second: float | None = None
    failed: int = 0
    logit_gaps: dict[Literal["mean", "largest", "ids"], float] | None = None
    generator: dict[str, float] = {}
    void: str = ""
    settings: dict[str, Any] = {}


class ServeDocument(MeasuredDocument):
    """Servers under load."""

    version: Literal[1] = 1
    rows: list[ServeRow]


START_SECONDS = 400.0
"""A server compiles and captures its graphs before it is ready."""


def ours(requested: ServerSettings, device: str, options: Sequence[str] = (), weights: str = "") -> ServerCommand:
    """`python -m kernels serve`, with `weights` in that precision where it is another than the activations'."""
    if weights and weights != requested.dtype:
        options = [*options, "--weights", weights]
    size = ["--max-model-len", str(requested.max_model_len), "--max-num-seqs", str(requested.max_num_seqs)]
    options_of_host = [
        "--device",
        device,
        "--dtype",
        requested.dtype,
        "--host",
        "127.0.0.1",
        "--port",
        str(requested.port),
    ]
    command = [sys.executable, "-m", "kernels", "serve", "--model", str(requested.directory), "--name", requested.name]
    options_of_host.append("--capture-all")
    settings = {
        "max_model_len": requested.max_model_len,
        "max_num_seqs": requested.max_num_seqs,
        "options": " ".join(options),
        "weights": weights or requested.dtype,
    }
    return ServerCommand("kernels", False, [*command, *size, *options_of_host, *options], dict(os.environ), settings)
