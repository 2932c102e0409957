"""Device times of the kernels of two commits, measured by processes that alternate on one GPU.

    bash benchmarks/h200/base.sh f706c2e base.tar.xz && mkdir base && tar -C base -xJf base.tar.xz
    python -m benchmarks.two_commits base --json two-commits.json

A pair is a process that imports the kernels of the folder and one that imports those of this tree. In each round every
process times every case: the median of 15 calls between CUDA events, behind a cleared L2 cache. A process keeps its
buffers, and where they lie in the GPU's memory may change the time. So pairs of processes are what is counted: a pair's
ratio is the median over its rounds of this tree's time to the folder's. A row has each side's median in ms, and the
median of the pairs' ratios, [median, low, high] with the exact 95 % interval over the pairs. A kernel is slower when
the interval lies wholly above 1.01. The same commit given as the folder shows what the method finds between equal
kernels.

Four pairs are on the GPU at once, since each process takes 3 to 8 GB of its memory. The document is written after each
group of pairs, so what is stopped keeps those that have ended.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import IO, Any

PAIRS, AT_ONCE, ROUNDS, CALLS = 12, 4, 4, 15
SLOWER = 1.01

HERE = Path(__file__).parents[1]
ATTENTION = {"op": "attention", "heads": 16, "kv_heads": 4, "batch": 1}
PREFILL = ATTENTION | {"kind": "prefill", "q_len": 2048, "kv_len": 2048, "causal": True}
DECODE = ATTENTION | {"kind": "decode", "q_len": 1, "head_dim": 128}
HEAD = {"op": "lm_head", "vocab": 128256, "k": 2048}
LINEAR = {"op": "linear", "n": 4096, "k": 4096}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("flash_hopper", PREFILL | {"head_dim": 128}),
    ("flash_hopper", PREFILL | {"head_dim": 64}),
    ("flash_triton", PREFILL | {"head_dim": 128}),
    ("decode_hopper", DECODE | {"kv_len": 2048}),
    ("decode_hopper", DECODE | {"kv_len": 32768}),
    ("decode_hopper", DECODE | {"kv_len": 8192, "batch": 16}),
    ("decode_split", DECODE | {"kv_len": 8192, "batch": 8}),
    ("step_hopper", {"op": "step_attention", "batch": 1, "heads": 32, "kv_heads": 8, "head_dim": 64, "kv_len": 1024}),
    ("gemm_hopper", LINEAR | {"m": 4096}),
    ("gemm_hopper", LINEAR | {"m": 4096, "epilogue": "residual"}),
    ("gemm_hopper", LINEAR | {"m": 512, "epilogue": "bias"}),
    ("gemm_hopper_fp8", LINEAR | {"m": 4096, "weights": "fp8", "scales": "tensor"}),
    ("gemm_hopper_fp8", LINEAR | {"m": 4096, "weights": "fp8", "scales": "row"}),
    ("gemm_hopper_fp8", LINEAR | {"m": 4096, "weights": "fp8", "scales": "block"}),
    ("grouped_hopper", {"op": "grouped", "rows": 4096, "experts": 8, "n": 4096, "k": 2048}),
    ("small_gemm", LINEAR | {"m": 64}),
    ("small_gemm", LINEAR | {"m": 256, "epilogue": "residual"}),
    ("skinny", LINEAR | {"m": 1}),
    ("skinny", LINEAR | {"m": 8}),
    ("skinny_fp8", LINEAR | {"m": 1, "weights": "fp8"}),
    ("skinny_nvfp4", LINEAR | {"m": 1, "weights": "nvfp4"}),
    ("skinny_int4", LINEAR | {"m": 1, "weights": "int4"}),
    ("lm_head_skinny", HEAD | {"m": 1}),
    ("lm_head_skinny", HEAD | {"m": 8}),
    ("lm_head_skinny", HEAD | {"m": 1, "sampling": "top_k_p"}),
    ("lm_head_skinny", HEAD | {"m": 8, "sampling": "top_k_p"}),
    ("lm_head_skinny_fp8", HEAD | {"m": 1, "weights": "fp8"}),
    ("lm_head_skinny_fp8", HEAD | {"m": 1, "weights": "fp8", "sampling": "top_k_p"}),
    ("rmsnorm_triton", {"op": "rmsnorm", "m": 4096, "n": 4096}),
    ("gated_triton", {"op": "gated", "m": 4096, "n": 8192}),
    ("rope_triton", {"op": "rope", "batch": 1, "q_len": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}),
]


def _cases(only: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The cases of these variants; all when none is named."""
    return [each for each in CASES if not only or each[0] in only]


def _first(*names: str) -> Any:
    """The first of these modules that the kernels have: version 1 has other names."""
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(names[0])


def _built(name: str, values: dict[str, Any]) -> Any:
    import torch

    from kernels import ops, registry

    case = ops.case_from.validate_python(values)
    variant = registry.variant(name)
    drawn = _first("kernels.proof.inputs", "kernels.inputs").draw(case, torch.device("cuda"), seed=1)
    params = variant.space(case)[0]
    arguments = _first("kernels.proof.gate", "kernels.accuracy").pack(variant, case, params, drawn)
    function = variant.build(case, params)
    return lambda: function(**arguments)


def child(order: str, only: list[str]) -> None:
    """Builds every case, prints those that cannot be built, then times all for each line of the standard input.

    One process of a tree builds forwards and one backwards, so that they share the work of compiling.
    """
    import torch

    cases = _cases(only)
    calls: list[Any] = [None] * len(cases)
    refused: dict[int, str] = {}
    for at in range(len(cases)) if order == "forwards" else reversed(range(len(cases))):
        name, values = cases[at]
        try:
            call = _built(name, values)
            call()
            torch.cuda.synchronize()
        except Exception as error:  # a case that one side lacks must not end the others
            call, refused[at] = None, f"{type(error).__name__}: {str(error)[:300]}"
        calls[at] = call
        torch.cuda.empty_cache()  # several processes share the GPU's memory
    other = torch.ones(256 << 18, dtype=torch.float32, device="cuda")
    print(json.dumps(refused), flush=True)
    for _ in sys.stdin:
        print(json.dumps([None if call is None else _time(call, other) for call in calls]), flush=True)


def _time(call: Any, other: Any) -> float:
    """Median of CALLS calls in ms, each with a cleared L2 and a stream that is busy until the host has queued it."""
    import torch

    spent = []
    for _ in range(CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(500_000)
        other.sum()
        start.record()
        call()
        end.record()
        end.synchronize()
        spent.append(start.elapsed_time(end))
    return median(spent)


def _start(tree: Path, order: str, only: list[str]) -> "subprocess.Popen[str]":
    path = os.pathsep.join((str(tree), *filter(None, [os.environ.get("PYTHONPATH")])))
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", order]
    command += ["--only", *only] if only else []
    return subprocess.Popen(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": path}, stdin=-1, stdout=-1, text=True, bufsize=1
    )


def _line(stream: IO[str] | None) -> Any:
    if stream is None or not (line := stream.readline()):
        raise RuntimeError("a process has ended: see its messages above")
    return json.loads(line)


Times = list[Any]
"""A process's time of each case in one round, in ms; None where the case could not be built."""


def pairs_of(base: Path, only: list[str]) -> Iterator[tuple[list[list[tuple[Times, Times]]], dict[str, str]]]:
    """After each group of pairs: the pairs until then, each as rounds of the folder's times and this tree's, and why
    cases were refused, by their numbers.

    Raises RuntimeError when a process ends.
    """
    pairs: list[list[tuple[Times, Times]]] = []
    refused: dict[str, str] = {}
    for first in range(0, PAIRS, AT_ONCE):
        orders = [("forwards", "backwards")[pair % 2] for pair in range(first, min(first + AT_ONCE, PAIRS))]
        processes = [_start(tree, order, only) for order in orders for tree in (base, HERE)]
        for each in processes:
            refused |= _line(each.stdout)
        rounds: list[list[Times]] = []
        for _ in range(ROUNDS):
            found = []
            for each in processes:
                print(file=each.stdin, flush=True)
                found.append(_line(each.stdout))
            rounds.append(found)
        for each in processes:
            each.communicate()
        pairs += [[(found[2 * at], found[2 * at + 1]) for found in rounds] for at in range(len(orders))]
        yield pairs, refused


def rows(
    pairs: Sequence[Sequence[tuple[Times, Times]]], refused: dict[str, str], only: list[str]
) -> list[dict[str, Any]]:
    """A row for each case: both sides' medians in ms and the ratio's interval, or why it was refused."""
    from kernels.measure.intervals import median_interval

    found: list[dict[str, Any]] = []
    for at, (name, values) in enumerate(_cases(only)):
        row: dict[str, Any] = {"variant": name, "case": values}
        if str(at) in refused:
            found.append(row | {"refused": refused[str(at)]})
            continue
        timed = [[(old[at], new[at]) for old, new in pair] for pair in pairs]
        ratio = [round(each, 4) for each in median_interval([median(new / old for old, new in pair) for pair in timed])]
        before, after = (
            round(median(each), 5) for each in zip(*(both for pair in timed for both in pair), strict=True)
        )
        found.append(row | {"before_ms": before, "after_ms": after, "ratio": ratio, "slower": ratio[1] > SLOWER})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Device times of the kernels of two commits, by alternating processes."
    )
    parser.add_argument("base", type=Path, nargs="?", help="a folder with the kernels of the other commit")
    parser.add_argument("--json", type=Path, help="write the document here")
    parser.add_argument("--only", nargs="+", default=[], metavar="VARIANT", help="time these variants alone")
    parser.add_argument("--child", choices=("forwards", "backwards"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child, asked.only)
        return 0
    if asked.base is None or asked.json is None:
        parser.error("a folder and --json are needed")
    if not (asked.base / "kernels").is_dir():
        parser.error(f"{asked.base} has no folder kernels: benchmarks/h200/base.sh packs that of a commit")
    from kernels.measure.environment import environment_info

    commit = asked.base / "COMMIT"
    document: dict[str, Any] = {**environment_info(), "base": commit.read_text().strip() if commit.exists() else None}
    document |= {"rounds": ROUNDS, "calls": CALLS, "rows": []}
    for pairs, refused in pairs_of(asked.base.resolve(), asked.only):
        document |= {"pairs": len(pairs), "rows": rows(pairs, refused, asked.only)}
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{len(pairs)} of {PAIRS} pairs", flush=True)
    for row in document["rows"]:
        said = row.get("refused") or f"{row['ratio']}{' SLOWER' if row['slower'] else ''}"
        print(f"{row['variant']:<20} {said} {row['case']}")
    return int(any(row.get("slower") for row in document["rows"]))


if __name__ == "__main__":
    sys.exit(main())
