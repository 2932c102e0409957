"""Host time of one call of each variant that keeps its launches, and of torch's own functions, on a GPU.

    python -m benchmarks.host_cost --json host-cost.json

Every call is timed by `time.perf_counter_ns` with warm caches; the device is waited for before every 25 calls. A row
has [median, 10th percentile, 90th percentile] in µs of calls with checks, with checks into given outputs, and without
checks into given outputs. All cases are timed in each of several rounds, so that a host that is busy for a second slows
a part of a row's calls alone.
"""

import argparse
import ctypes
import inspect
import json
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROUNDS, BATCHES, BATCH = 4, 100, 25
CASE_SECONDS = 60.0
CHILD = [sys.executable, "-m", "benchmarks.host_cost", "--child"]

ATTENTION = {"op": "attention", "head_dim": 128, "heads": 16, "kv_heads": 4, "batch": 1}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("small_gemm", {"op": "linear", "m": 64, "n": 4096, "k": 4096}, {}),
    ("small_gemm", {"op": "linear", "m": 64, "n": 4096, "k": 4096, "epilogue": "residual"}, {}),
    ("skinny", {"op": "linear", "m": 1, "n": 4096, "k": 4096}, {}),
    ("skinny", {"op": "linear", "m": 1, "n": 4096, "k": 4096}, {"pdl": True}),
    ("skinny", {"op": "linear", "m": 4, "n": 4096, "k": 4096, "epilogue": "residual"}, {}),
    ("skinny_fp8", {"op": "linear", "m": 1, "n": 4096, "k": 4096, "weights": "fp8"}, {}),
    ("gemm_hopper", {"op": "linear", "m": 512, "n": 4096, "k": 4096}, {}),
    ("gemm_hopper", {"op": "linear", "m": 512, "n": 4096, "k": 4096, "epilogue": "residual"}, {}),
    ("gemm_hopper_fp8", {"op": "linear", "m": 512, "n": 4096, "k": 4096, "weights": "fp8", "scales": "row"}, {}),
    ("grouped_hopper", {"op": "grouped", "rows": 512, "experts": 8, "n": 1024, "k": 1024}, {}),
    ("lm_head_skinny", {"op": "lm_head", "m": 1, "vocab": 32000, "k": 2048}, {}),
    ("lm_head_skinny", {"op": "lm_head", "m": 1, "vocab": 32000, "k": 2048, "sampling": "top_k_p"}, {}),
    ("flash_hopper", ATTENTION | {"kind": "prefill", "q_len": 512, "kv_len": 512}, {}),
    ("decode_hopper", ATTENTION | {"kind": "decode", "q_len": 1, "kv_len": 2048}, {}),
    ("decode_split", ATTENTION | {"kind": "decode", "q_len": 1, "kv_len": 2048}, {}),
    ("step_hopper", {**ATTENTION, "op": "step_attention", "kv_len": 2048}, {}),
    ("step_hopper", {**ATTENTION, "op": "step_attention", "kv_len": 2048}, {"pdl": True}),
    ("rmsnorm_triton", {"op": "rmsnorm", "m": 1, "n": 4096}, {}),
    ("rmsnorm_triton", {"op": "rmsnorm", "m": 1, "n": 4096, "residual": True}, {}),
    ("gated_triton", {"op": "gated", "m": 1, "n": 8192}, {}),
    (
        "rope_triton",
        {"op": "rope", "append": True, "q_len": 1, "head_dim": 128, "heads": 16, "kv_heads": 4, "batch": 1},
        {},
    ),
    ("flash_triton", ATTENTION | {"kind": "prefill", "q_len": 512, "kv_len": 512}, {}),
]


def timed(call: Callable[[], Any]) -> Counter[int]:
    """The host times of one round's calls, in steps of 10 ns."""
    import torch

    spent: Counter[int] = Counter()
    for _ in range(200):
        call()
    for _ in range(BATCHES):
        torch.cuda.synchronize()
        for _ in range(BATCH):
            start = time.perf_counter_ns()
            call()
            spent[(time.perf_counter_ns() - start) // 10] += 1
    torch.cuda.synchronize()
    return spent


def summary(spent: Counter[int]) -> list[float]:
    """Median, 10th and 90th percentile in µs of times in steps of 10 ns."""
    ordered = sorted(spent.elements())
    return [ordered[int(len(ordered) * share)] / 100 for share in (0.5, 0.1, 0.9)]


def in_order(name: str, function: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments by position, as a careful caller gives them, with the defaults between them."""
    from kernels.attention.decode_call import DecodeArguments
    from kernels.attention.step_hopper_call import StepArguments
    from kernels.fused.rmsnorm_triton import NormArguments
    from kernels.gemm.lm_head_call import LmHeadArguments
    from kernels.ops.rope import AppendArguments

    tuples: dict[str, Any] = {
        "decode_hopper": DecodeArguments,
        "decode_split": DecodeArguments,
        "step_hopper": StepArguments,
        "lm_head_skinny": LmHeadArguments,
        "rmsnorm_triton": NormArguments,
        "rope_triton": AppendArguments,
    }
    if name in tuples:
        parameters = list(inspect.signature(tuples[name]).parameters.values())
    else:
        parameters = list(inspect.signature(function._prepare).parameters.values())[3:]
    last = max(at for at, parameter in enumerate(parameters) if parameter.name in arguments)
    return tuple(arguments.get(parameter.name, parameter.default) for parameter in parameters[: last + 1])


def calls_of(name: str, values: dict[str, Any], params: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    import torch

    from kernels import ops, registry
    from kernels.proof import gate, inputs

    variant, case = registry.variant(name), ops.case_from.validate_python(values)
    function: Any = variant.build(case, params)
    arguments = gate.pack(variant, case, params, inputs.draw(case, torch.device("cuda"), seed=1))
    out = function(**arguments)
    positional = in_order(name, function, arguments)
    return {
        "checked": lambda: function(*positional),
        "checked_out": lambda: function(*positional, out=out),
        "unchecked_out": lambda: function.unchecked(*positional, out=out),
    }


def of_torch() -> dict[str, list[float]]:
    """torch's functions, an empty kernel by the driver, and the clock itself."""
    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention

    from kernels.cuda import nvrtc, occupancy
    from kernels.cuda.launch import Launch, current_stream

    x, w = (torch.randn(rows, 4096, device="cuda", dtype=torch.bfloat16) for rows in (64, 4096))
    q = torch.randn(1, 16, 512, 128, device="cuda", dtype=torch.bfloat16)
    empty = nvrtc.load(occupancy.EMPTY_BUILD, "empty")
    stream = current_stream()[1]
    launches = [Launch(empty, (1,), 32, (), stream, pdl=pdl) for pdl in (False, True)]

    def both() -> None:
        launches[0]()
        launches[1]()

    calls: dict[str, Callable[[], Any]] = {
        "F.linear": lambda: linear(x, w),
        "F.sdpa": lambda: scaled_dot_product_attention(q, q, q),
        "torch.empty": lambda: torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16),
        "launch": launches[0],
        "launch pdl": launches[1],
        "two launches": both,
        "nothing": lambda: None,
    }
    spent: dict[str, Counter[int]] = {name: Counter() for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            spent[name].update(timed(call))
    return {name: summary(times) for name, times in spent.items()}


def child(cases: Sequence[int]) -> None:
    """Prints the times of one round of each case, or why there are none and ends: a CUDA error fails the rest."""
    built: dict[int, dict[str, Callable[[], Any]]] = {}
    for at in cases:
        try:
            if at not in built:
                built[at] = calls_of(*CASES[at])
            result: dict[str, Any] = {kind: timed(call) for kind, call in built[at].items()}
        except Exception as error:
            result = {"refused": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(result), flush=True)
        if "refused" in result:
            return


def rounds(command: list[str], count: int, seconds: float = CASE_SECONDS) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pairs of a case's number and what `child` printed of it, round by round.

    `command` runs `child` with the numbers behind it. A case that fails, ends the process or takes longer than
    `seconds` is refused and left out afterwards; a new process does the rest.
    """
    left = [*range(count)] * ROUNDS
    while left:
        with (
            subprocess.Popen([*command, *map(str, left)], stdout=subprocess.PIPE, bufsize=0) as process,
            selectors.DefaultSelector() as ready,
        ):
            assert process.stdout is not None
            ready.register(process.stdout, selectors.EVENT_READ)
            result: dict[str, Any] = {}
            while left and "refused" not in result:
                line = process.stdout.readline() if ready.select(seconds) else b""
                missing = {"refused": f"no row within {seconds:g} s, or its process has ended"}
                at, result = left.pop(0), json.loads(line) if line else missing
                yield at, result
            process.kill()
            if "refused" in result:
                left = [case for case in left if case != at]


def rows() -> Iterator[list[dict[str, Any]]]:
    """The rows of the cases that have been timed, after each one of a round."""
    from kernels import ops

    timed: list[dict[str, Any]] = []
    for name, values, params in CASES:
        case = ops.case_from.validate_python(values).model_dump(exclude_none=True)
        timed.append({"variant": name, "case": case, "params": params})
    spent: dict[tuple[int, str], Counter[int]] = {}
    for at, times_by_kind in rounds(CHILD, len(CASES)):
        for kind, times in times_by_kind.items():
            if kind == "refused":
                timed[at]["refused"] = times
                continue
            known = spent.setdefault((at, kind), Counter())
            known.update({int(step): count for step, count in times.items()})
            timed[at] |= {kind: summary(known), "calls": known.total()}
        yield [row for row in timed if len(row) > 3]


def main() -> int:
    parser = argparse.ArgumentParser(description="Host time of one call of each variant that keeps its launches.")
    parser.add_argument("--json", type=Path, help="write the document here")
    parser.add_argument("--child", type=int, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    if options.json is None:
        parser.error("--json is needed")
    from kernels.measure.environment import environment_info

    ctypes.CDLL("libcuda.so.1")  # fails at once on a machine without a driver
    calls = ROUNDS * BATCHES * BATCH
    document: dict[str, Any] = {**environment_info(), "calls": calls, "torch": of_torch(), "rows": []}
    print(document["torch"], flush=True)
    for document["rows"] in rows():
        options.json.write_text(json.dumps(document, indent=1) + "\n")  # what is stopped keeps the rows until then
    for row in document["rows"]:
        times = (f"{name} {row[name][0]:6.2f}" for name in ("checked", "checked_out", "unchecked_out") if name in row)
        print(f"{row['variant']:<18} {row.get('refused') or ' '.join(times)}  {row['params']}", flush=True)
    return int(any("refused" in row for row in document["rows"]))


if __name__ == "__main__":
    sys.exit(main())
