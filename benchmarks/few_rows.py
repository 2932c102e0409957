"""Times of a layer's products with few rows of x, in bf16 and int8, as a chain of dependent launches in a CUDA graph.

    python -m benchmarks.few_rows --model llama-3.1-8b --rows 8 16 32 64 128 256 --json few-rows.json

No gate: each variant's output is compared once with the product of its own rounded weights. The copies of the weight
that the chain takes in turn exceed the L2, so that each call reads memory. `us` of a row is the median of the replays.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernels import registry
from kernels.cases.linear import MODELS
from kernels.cuda.graphs import capture_graph
from kernels.hardware import Gpu
from kernels.measure.environment import environment_info
from kernels.measure.gpu_entry import gpu_of
from kernels.ops import LinearCase
from kernels.server.execution.compiling import compile_together
from kernels.server.execution.ops import STREAMED

TURNED_BYTES = 256 << 20
"""The bytes of all copies of a weight."""
CALLS, REPLAYS = 12, 9
VARIANTS: dict[str, dict[str, Any]] = {"skinny": {**STREAMED}, "small_gemm": {"pdl": True}, "torch_linear": {}}
"""The variants in the model's precision, with the params of a server's passes. `_int8` is appended for int8."""


class Candidate(NamedTuple):
    variant: registry.Variant
    case: LinearCase
    params: dict[str, Any]


def products(model: str, rows: int) -> Iterator[LinearCase]:
    """q, k, v packed; o; gate, up packed; down, with the epilogues of a pass whose norms are separate."""
    qkv, o, gate_up, down = MODELS[model]
    yield LinearCase(m=rows, n=qkv[0], k=qkv[1])
    yield LinearCase(m=rows, n=o[0], k=o[1], epilogue="residual")
    yield LinearCase(m=rows, n=gate_up[0] // 2, k=gate_up[1], epilogue="swiglu")
    yield LinearCase(m=rows, n=down[0], k=down[1], epilogue="residual")


def candidates(case: LinearCase, tried: int, gpu: Gpu) -> Iterator[Candidate]:
    """Of each variant that serves the case, the best guess and `tried` - 1 other params."""
    for name, base in VARIANTS.items():
        for variant_name, own in ((name, case), (f"{name}_int8", case.model_copy(update={"weights": "int8"}))):
            if (name == "torch_linear" and own is not case) or registry.variant(variant_name).serves(own, gpu):
                continue
            space = registry.variant(variant_name).space(own)[:tried] if name == "small_gemm" else [{}]
            yield from (Candidate(registry.variant(variant_name), own, params | base) for params in space)


def arguments(case: LinearCase) -> dict[str, torch.Tensor]:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    given = {"x": random(case.m, case.k), "w": random(case.weight_rows, case.k) / case.k**0.5}
    return given | ({"residual": random(case.m, case.n)} if case.epilogue == "residual" else {})


def time_candidate(candidate: Candidate, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    variant, case, params = candidate
    call = variant.build(case, params)
    packed = variant.pack(case, params, tensors["w"])
    parts = packed if isinstance(packed, tuple) else (packed,)
    size = sum(part.nbytes for part in parts)
    copies = [packed]
    while len(copies) * size < TURNED_BYTES:
        copies.append(tuple(part.clone() for part in parts) if isinstance(packed, tuple) else packed.clone())
    others = {name: value for name, value in tensors.items() if name not in ("x", "w")}
    calls = max(CALLS, len(copies))

    def chain() -> None:
        for number in range(calls):
            call(tensors["x"], copies[number % len(copies)], **others)

    stored = variant.rounded(case, params, tensors) if variant.lossy else tensors
    (exact,) = case.reference({name: value.float() for name, value in stored.items()})
    error = float((call(tensors["x"], packed, **others).float() - exact).norm() / exact.norm())
    graph = capture_graph(chain, torch.device("cuda"))
    times = []
    for _ in range(REPLAYS):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        graph()
        last.record()
        last.synchronize()
        times.append(1000 * first.elapsed_time(last) / calls)
    us = statistics.median(times[2:])
    return {"case": case.model_dump(), "variant": variant.name, "params": params, "us": round(us, 2), "error": error}


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=tuple(MODELS), default=["llama-3.1-8b"])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256])
    parser.add_argument("--tried", type=int, default=2, help="params of `small_gemm` that are timed")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(given)
    gpu = gpu_of(torch.device("cuda"))
    cases = [case for model in options.model for rows in options.rows for case in products(model, rows)]
    tried = {case.key: list(candidates(case, options.tried, gpu)) for case in cases}
    builds = [build for some in tried.values() for one in some for build in one.variant.cuda_builds(*one[1:], gpu)]
    print(f"{compile_together(builds)} builds", flush=True)
    document: dict[str, Any] = environment_info(device="cuda") | {"rows": []}
    failed = 0
    for case in cases:
        drawn = arguments(case)
        rows = [time_candidate(candidate, drawn) for candidate in tried[case.key]]
        document["rows"] += rows
        options.json.write_text(json.dumps(document, indent=1) + "\n")
        failed += sum(row["error"] > 0.01 for row in rows)
        line = ", ".join(f"{row['variant']} {row['us']} ({row['error']:.1e})" for row in rows)
        print(f"{case.m} x {case.n} x {case.k}: {line}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
