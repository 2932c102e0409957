"""Runs an engine in this process, and holds what it served against the model."""

from collections.abc import Sequence
from typing import Any

import torch

from kernels import runners
from kernels.proof.logit_gate import MAX_DIFFERENCE
from kernels.proof.served_ids import logit_gaps
from kernels.server.execution.engine import Engine
from kernels.server.scheduler.requests import Request, Token


def run_all(own: Engine, requests: Sequence[Request]) -> list[Token]:
    """Serves requests that arrive together; all tokens in their order."""
    for request in requests:
        own.add(request)
    tokens: list[Token] = []
    while not own.idle:
        tokens += own.run_step()
    return tokens


def assert_models_answers(model: Any, requests: Sequence[Request], dtype: str = "bf16") -> None:
    """Each greedy answer is what the model has as best, but for the rounding of the dtype."""
    eager = runners.runner("eager", model)
    for request in requests:
        ids, length = torch.tensor([request.ids], device=next(model.parameters()).device), request.prompt_length
        gaps = logit_gaps(eager, ids[:, :length], [request.ids[length:]])
        assert gaps.refusal(MAX_DIFFERENCE[dtype]) is None, request.name
