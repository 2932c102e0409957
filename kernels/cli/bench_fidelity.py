"""`bench decode --fidelity`: how far runners are from the float32 model, with torch's own ops beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kernels import runners
from kernels.cli.bench_decode_run import DecodeRun
from kernels.measure.fidelity import LENGTH, Fidelity, fidelity
from kernels.model.layer_by_layer import float32_logits
from kernels.model.tensor_parallel import TensorParallelModel
from kernels.model_files import catalogue
from kernels.ops import ModelCase
from kernels.proof.logit_gate import LARGEST_DIFFERENCE
from kernels.proof.served_ids import own_gaps
from kernels.runners import Runner


@dataclass(frozen=True)
class Exact:
    """The float32 model's `logits` [sequences, LENGTH, vocab] of `ids`, on the CPU, and how far torch's own ops in the
    model's dtype are from them.
    """

    ids: Tensor
    logits: Tensor
    by_torch: Fidelity

    @classmethod
    def of(cls, model: Any, reference: Runner, case: ModelCase, tokens: int) -> "Exact":
        """Over `tokens` tokens, rounded up to whole batches. `reference` runs torch's own ops on the model.

        It is asked before a runner takes the memory that it needs, or rounds the weights in place.
        """
        config, _ = catalogue.entry(case.model)
        count = -(-tokens // (LENGTH * case.batch)) * case.batch
        ids = torch.randint(model.config.vocab_size, (count, LENGTH), generator=torch.Generator().manual_seed(6))
        if isinstance(model, TensorParallelModel):
            logits = float32_logits(config, ids, model.device)
        else:
            whole = runners.load(None, config, seed=0, generated=True, dtype="fp32", device=model.device.type)
            exact = runners.runner("eager", whole)
            logits = torch.cat([exact.logits(rows).cpu() for rows in ids.split(case.batch)])
            exact.close()
            del whole
        runners.free()
        expected = logits.split(case.batch)
        return cls(ids, logits, fidelity(expected, {"torch": reference}, ids, case.batch)["torch"])


def compare(runs: Sequence[DecodeRun], exact: Exact, case: ModelCase, dtype: str) -> None:
    """Notes how far torch's eager model and our own runners are from float32, and what these serve from themselves.

    `dtype` is the precision of the activations.
    """
    for run in (run for run in runs if not run.variant.peer):
        run.own = own_gaps(run.runner, (case.batch, case.prompt, case.tokens))
        if refusal := run.own.own_refusal(LARGEST_DIFFERENCE[dtype]):
            run.gate, run.reason = "fail", refusal
    compared = {run.name: run for run in runs if run.variant.name == "eager" or not run.variant.peer}
    compared_runners = {name: run.runner for name, run in compared.items()}
    distances = fidelity(exact.logits.split(case.batch), compared_runners, exact.ids, case.batch)
    for name, run in compared.items():
        run.fidelity, run.torch_kl = distances[name], exact.by_torch.kl
