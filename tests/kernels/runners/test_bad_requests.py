"""Requests that no runner can answer are refused by the name of the argument."""

from typing import Any

import pytest
import torch

from kernels import runners
from tests.kernels.runners.engine_models import load

RUNNERS: dict[str, dict[str, Any]] = {"eager": {}, "compiled": {"compile": False}, "kernels": {}}


@pytest.mark.parametrize("name", RUNNERS)
def test_a_request_without_ids_or_tokens_is_refused(name: str) -> None:
    model = load("llama", seed=1)
    runner = runners.runner(name, model, RUNNERS[name])
    ids = torch.ones(1, 5, dtype=torch.int64)
    for prompt in (ids[:, :0], ids[:0], ids[0], ids.float()):
        with pytest.raises(ValueError, match=r"^prompt: "):
            runner.generate(prompt, 4)
    for tokens in (0, -1):
        with pytest.raises(ValueError, match=r"^tokens: "):
            runner.generate(ids, tokens)
