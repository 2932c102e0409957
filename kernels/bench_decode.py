"""`bench decode`: whole models generating 64 tokens from a 128-token prompt at batch 1, runners in turns."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels import catalogue, engine, registry
from kernels.believable import floor_ms, impossible
from kernels.bench_document import Row
from kernels.engine import Runner
from kernels.engine.weights import generated_digest
from kernels.engine.whole_model import WholeModel
from kernels.hardware import Gpu
from kernels.launches import is_own, kernels_seen
from kernels.ops import ModelCase
from kernels.timing import median_interval

PROMPT, TOKENS = 128, 64
USUAL_BUILD_SECONDS = 60.0
"""Variants that may take longer to build run only when they are named."""
SANITY = {"bf16": 0.25, "fp16": 0.1, "fp32": 0.01}
"""Largest relative difference of the logits from the eager model's that rounding explains."""
ROUNDS = 20


@dataclass
class _Run:
    """One runner of the group, what it measured, and whether its logits are the model's."""

    variant: WholeModel
    runner: Runner
    gate: str
    reason: str = ""
    ttf64_ms: list[float] = field(default_factory=list)
    per_token_ms: list[float] = field(default_factory=list)

    def serve(self, prompt: torch.Tensor) -> None:
        made = self.runner.generate(prompt, TOKENS)
        self.ttf64_ms.append((made.times_ns[TOKENS - 1] - made.start_ns) / 1e6)
        self.per_token_ms.append((made.times_ns[-1] - made.times_ns[0]) / 1e6 / (TOKENS - 1))


def decode_rows(
    models: Sequence[str] | None,
    names: Sequence[str] | None,
    ceilings: dict[str, Any],
    place: tuple[torch.device, Gpu],
    seconds: float,
) -> Iterator[Row]:
    """Rows of every model and runner; `seconds` bounds the measured rounds of one model. Raises KeyError."""
    device, gpu = place
    usual = ["tiny-llama"] if device.type == "cpu" else ["llama-3.2-1b", "qwen2.5-1.5b"]
    for name in models or usual:
        config, _ = catalogue.entry(name)
        dtype = "fp32" if device.type == "cpu" else "bf16"
        model = engine.load(None, config, seed=0, generated=True, dtype=dtype, device=device.type)
        case = model_case(model, generated_digest(config, 0), dtype)
        yield from _measured(model, case, dtype, names, gpu, ceilings, seconds)


def model_case(model: Any, digest: str, dtype: str) -> ModelCase:
    """The case of a loaded model; a decode step reads every weight but an embedding that is only looked up."""
    embedding = model.get_input_embeddings().weight
    head = model.get_output_embeddings()
    tied = head is not None and head.weight.data_ptr() == embedding.data_ptr()
    unread = 0 if tied else embedding.numel()
    parameters = sum(each.numel() for each in model.parameters()) - unread
    return ModelCase(
        model=digest,
        weights=dtype,  # type: ignore[arg-type]
        batch=1,
        prompt=PROMPT,
        tokens=TOKENS,
        parameters=parameters,
        bytes_per_token=parameters * embedding.itemsize,
    )


def _measured(
    model: Any,
    case: ModelCase,
    dtype: str,
    names: Sequence[str] | None,
    gpu: Gpu,
    ceilings: dict[str, Any],
    seconds: float,
) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(model.config.vocab_size, (1, PROMPT), generator=generator).to(model.device)
    expected = engine.runner("eager", model).logits(ids).float()
    runs = [_prepared(each, model, case, ids, expected, SANITY[dtype]) for each in _wanted(case, names, gpu)]
    end = time.monotonic() + seconds
    for done in range(ROUNDS):
        if done >= 3 and time.monotonic() > end:
            break
        for run in runs:
            if run.gate == "pass":
                run.serve(ids)
    best = min((median_interval(run.ttf64_ms)[0] for run in runs if run.ttf64_ms and run.variant.peer), default=None)
    for run in runs:
        yield _row(run, case, gpu, ceilings, best, ids)


def _wanted(case: ModelCase, names: Sequence[str] | None, gpu: Gpu) -> list[WholeModel]:
    found = [each for each in registry.variants("model") if isinstance(each, WholeModel)]
    for name in names or []:
        registry.variant(name)
    picked = [each for each in found if (each.name in names if names else each.build_seconds <= USUAL_BUILD_SECONDS)]
    return [each for each in picked if each.serves(case, gpu) is None]


def _prepared(
    variant: WholeModel, model: Any, case: ModelCase, ids: torch.Tensor, expected: torch.Tensor, limit: float
) -> _Run:
    runner = variant.build(case, {})(model)
    try:
        runner.prepare(case.batch, case.prompt, case.tokens)
        difference = float((runner.logits(ids).float() - expected).norm() / expected.norm())
    except Exception as error:
        return _Run(variant, runner, "error", f"It could not run: {type(error).__name__}: {str(error)[:200]}")
    right = difference <= limit
    return _Run(variant, runner, "pass" if right else "fail", f"Its logits differ from eager's by {difference:.2%}.")


def _row(run: _Run, case: ModelCase, gpu: Gpu, ceilings: dict[str, Any], best: float | None, ids: torch.Tensor) -> Row:
    row = Row(
        op="model",
        case=case.model_dump(),
        variant=run.variant.name,
        peer=run.variant.peer,
        gate=run.gate,  # type: ignore[arg-type]
        reason=run.reason,
    )
    if not run.ttf64_ms:
        return row
    ms, low, high = median_interval(run.ttf64_ms)
    floor = floor_ms(case, ceilings)
    too_good = impossible(case, ms, gpu, ceilings)
    names = kernels_seen(lambda: run.runner.generate(ids, 4), ids.device)
    return row.model_copy(
        update={
            "ms": ms,
            "ms_low": low,
            "ms_high": high,
            "tflops": case.flops / ms / 1e9,
            "gbps": case.least_bytes / ms / 1e6,
            "floor_share": floor / ms if floor else None,
            "ratio_to_best_peer": best / ms if best else None,
            "gate": "impossible" if too_good else run.gate,
            "reason": too_good or run.reason,
            "kernels": names,
            "own": None if run.variant.peer else is_own(names),
            "ttf64_ms": ms,
            "ms_per_token": median_interval(run.per_token_ms)[0],
        }
    )
