"""Times long convolutions at the shapes of FlashFFTConv's paper and of Evo 2, beside their peers.

    python -m benchmarks.fft RESULT.json [--length N]... [--seconds S]

64 sequences of 768 channels, gated, and one of 4,096 channels. The batch is smaller from where the tensors would not
fit; the time is then also given for 64. Every variant and each of its params is timed, interleaved, with an empty L2;
its answer is compared with that of torch in float32.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernels import registry
from kernels.hardware import GPUS
from kernels.measure.environment import environment_info
from kernels.measure.timing import StoppingRule, time_interleaved
from kernels.ops import FftConvCase
from kernels.proof import inputs

LENGTHS = (256, 1024, 4096, 8192, 16_384, 32_768, 1 << 20)
WIDE = tuple(1 << log for log in range(13, 18))
COMPILED = (4096, 16_384)
"""Lengths at which torch's variant is also compiled by Inductor."""
MAX_ELEMENTS = 64 * 768 * 32_768
"""The most values of a tensor."""


def cases(lengths: list[int] | None) -> Iterator[FftConvCase]:
    for width, batch, lengths_of_width in ((768, 64, LENGTHS), (4096, 1, WIDE)):
        for length in lengths_of_width:
            if lengths is None or length in lengths:
                fitting = max(1, min(batch, MAX_ELEMENTS // (width * length)))
                yield FftConvCase(batch=fitting, width=width, length=length, filter=length)
    if lengths is None:
        for length, taps in ((8192, 7), (8192, 128), (131_072, 128)):
            yield FftConvCase(batch=1, width=4096, length=length, filter=taps)


def calls_of(case: FftConvCase, tensors: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    w = tensors.pop("w")
    out = torch.empty_like(tensors["u"])
    for variant in registry.variants("fft_conv"):
        if variant.serves(case, GPUS["h200"]) is not None or (variant.build_seconds and case.length not in COMPILED):
            continue
        for params in variant.space(case):
            packed = variant.pack(case, params, w)
            outputs = {} if variant.peer else {"out": out}
            label = " ".join((variant.name, *(f"{name}={value}" for name, value in params.items())))
            calls[label] = partial(variant.build(case, params), w=packed, **tensors, **outputs)
    return calls


def truth_of(case: FftConvCase, tensors: dict[str, Any]) -> torch.Tensor:
    """The answer for the first channels by torch's transforms in float32."""
    narrow = case.model_copy(update={"width": 4})
    part = {name: tensor[:4] if name == "w" else tensor[:, :4] for name, tensor in tensors.items()}
    return narrow.native(part)[0]


def compile_all(to_compile: list[FftConvCase]) -> None:
    gpu, variants = GPUS["h200"], [variant for variant in registry.variants("fft_conv") if not variant.peer]
    builds = {
        build.name: build
        for case in to_compile
        for variant in variants
        if variant.serves(case, gpu) is None
        for params in variant.space(case)
        for build in variant.cuda_builds(case, params, gpu)
    }
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda build: build.binary(), builds.values()))


def relative_error(answer: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest difference in the first channels, as a share of the largest value."""
    one, two = answer[:, :4].double(), truth[:, :4].double()
    return float((one - two).abs().max() / two.abs().max())


def measure_case(case: FftConvCase, seconds: float) -> Iterator[dict[str, Any]]:
    arguments = inputs.draw(case, "cuda", 1)
    truth = truth_of(case, arguments)
    calls = calls_of(case, arguments)
    errors = {}
    for name, call in list(calls.items()):
        try:
            errors[name] = relative_error(call(), truth)
        except Exception as failure:
            print(f"{name}: {type(failure).__name__}: {str(failure)[:300]}", flush=True)
            del calls[name]
    times = time_interleaved(calls, "cuda", StoppingRule(seconds=seconds, least=3, warmup_seconds=0.01))
    for name, time in sorted(times.items(), key=lambda item: item[1].ms):
        yield {
            "case": case.model_dump(), "call": name, "ms": time.ms, "ms_low": time.low, "ms_high": time.high,
            "ms_of_64": time.ms * 64 / case.batch if case.width == 768 else None, "error": errors[name],
            "gbps": case.least_bytes / time.ms / 1e6,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Times long convolutions beside their peers.")
    parser.add_argument("result", type=Path)
    parser.add_argument("--length", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each case")
    options = parser.parse_args()
    document = environment_info(device="cuda") | {"rows": []}
    to_compile = list(cases(options.length))
    compile_all(to_compile)
    for case in to_compile:
        print(case.key.removeprefix("op=fft_conv "), flush=True)
        try:
            for row in measure_case(case, options.seconds):
                document["rows"].append(row)
                of_64 = f" {row['ms_of_64']:9.3f} of 64" if row["ms_of_64"] and case.batch < 64 else ""
                print(
                    f"  {row['ms']:9.4f} ms{of_64} {row['gbps']:7.0f} GB/s  {row['error']:.1e}  {row['call']}",
                    flush=True,
                )
        except Exception as failure:
            print(f"  {type(failure).__name__}: {str(failure)[:500]}", flush=True)
        options.result.write_text(json.dumps(document, indent=1) + "\n")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    with torch.no_grad():
        main()
