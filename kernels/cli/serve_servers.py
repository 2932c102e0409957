"""The servers that `bench serve` holds beside each other: how each is started, and with which settings."""

import os
import sys
from collections.abc import Sequence

from kernels.load.vllm_server import ServerCommand, ServerSettings

START_SECONDS = 400.0
"""A server compiles and captures its graphs before it is ready."""


def ours(wanted: ServerSettings, device: str, options: Sequence[str] = (), weights: str = "") -> ServerCommand:
    """`python -m kernels serve`, with `weights` in that precision where it is another than the activations'."""
    if weights and weights != wanted.dtype:
        options = [*options, "--weights", weights]
    size = ["--max-model-len", str(wanted.max_model_len), "--max-num-seqs", str(wanted.max_num_seqs)]
    place = ["--device", device, "--dtype", wanted.dtype, "--host", "127.0.0.1", "--port", str(wanted.port)]
    command = [sys.executable, "-m", "kernels", "serve", "--model", str(wanted.directory), "--name", wanted.name]
    place.append("--capture-all")
    settings = {
        "max_model_len": wanted.max_model_len,
        "max_num_seqs": wanted.max_num_seqs,
        "options": " ".join(options),
        "weights": weights or wanted.dtype,
    }
    return ServerCommand("kernels", False, [*command, *size, *place, *options], dict(os.environ), settings)
