"""Host time of one call of each variant that keeps its launches, and of torch's own functions, on a GPU.

    python -m benchmarks.host_cost --json host-cost.json

Every call is timed by `time.perf_counter_ns` with warm caches; the device is waited for before every 25 calls. A row
has [median, 10th percentile, 90th percentile] in µs of calls with checks, with checks into given outputs, and without
checks into given outputs.
"""

import argparse
import ctypes
import inspect
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CALLS, BATCH = 10_000, 25
CASE_SECONDS = 60.0

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


def measured(call: Callable[[], Any]) -> list[float]:
    """Median, 10th and 90th percentile of the host time of a call in µs."""
    import torch

    spent: list[int] = []
    for _ in range(500):
        call()
    for _ in range(CALLS // BATCH):
        torch.cuda.synchronize()
        for _ in range(BATCH):
            start = time.perf_counter_ns()
            call()
            spent.append(time.perf_counter_ns() - start)
    torch.cuda.synchronize()
    spent.sort()
    return [round(spent[int(len(spent) * share)] / 1e3, 2) for share in (0.5, 0.1, 0.9)]


def in_order(name: str, function: Any, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments by position, as a careful caller gives them, with the defaults between them."""
    from kernels.attention.decode_call import DecodeArguments
    from kernels.attention.step_hopper_call import StepArguments
    from kernels.gemm.lm_head_call import LmHeadArguments
    from kernels.ops.rope import AppendArguments

    tuples: dict[str, Any] = {
        "decode_hopper": DecodeArguments,
        "decode_split": DecodeArguments,
        "step_hopper": StepArguments,
        "lm_head_skinny": LmHeadArguments,
        "rope_triton": AppendArguments,
    }
    if name in tuples:
        parameters = list(inspect.signature(tuples[name]).parameters.values())
    else:
        parameters = list(inspect.signature(function._prepare).parameters.values())[3:]
    last = max(at for at, each in enumerate(parameters) if each.name in arguments)
    return tuple(arguments.get(each.name, each.default) for each in parameters[: last + 1])


def row(name: str, values: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    import torch

    from kernels import ops, registry
    from kernels.proof import gate, inputs

    variant, case = registry.variant(name), ops.case_from.validate_python(values)
    function: Any = variant.build(case, params)
    arguments = gate.pack(variant, case, params, inputs.draw(case, torch.device("cuda"), seed=1))
    out = function(**arguments)
    positional = in_order(name, function, arguments)
    return {
        "variant": name,
        "case": case.model_dump(exclude_none=True),
        "params": params,
        "checked": measured(lambda: function(*positional)),
        "checked_out": measured(lambda: function(*positional, out=out)),
        "unchecked_out": measured(lambda: function.unchecked(*positional, out=out)),
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

    return {
        "F.linear": measured(lambda: linear(x, w)),
        "F.sdpa": measured(lambda: scaled_dot_product_attention(q, q, q)),
        "torch.empty": measured(lambda: torch.empty(64, 4096, device="cuda", dtype=torch.bfloat16)),
        "launch": measured(launches[0]),
        "launch pdl": measured(launches[1]),
        "two launches": measured(both),
        "nothing": measured(lambda: None),
    }


def child(first: int) -> None:
    """Prints a line for each case from number `first` on: its row, or why it has none."""
    for name, values, params in CASES[first:]:
        try:
            found = row(name, values, params)
        except Exception as error:  # a case that fails must not end the others
            found = refused(name, values, params, f"{type(error).__name__}: {str(error)[:300]}")
        print(json.dumps(found), flush=True)


def refused(name: str, values: dict[str, Any], params: dict[str, Any], reason: str) -> dict[str, Any]:
    return {"variant": name, "case": values, "params": params, "refused": reason}


def rows(seconds: float = CASE_SECONDS) -> Iterator[dict[str, Any]]:
    """The rows of all cases in their order. A case that gives none within `seconds` is refused."""
    done = 0
    while done < len(CASES):
        command = [sys.executable, "-m", "benchmarks.host_cost", "--from-case", str(done)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process,
            selectors.DefaultSelector() as ready,
        ):
            assert process.stdout is not None
            ready.register(process.stdout, selectors.EVENT_READ)
            while done < len(CASES):
                line = process.stdout.readline() if ready.select(seconds) else b""
                why = f"no row within {seconds:g} s, or its process has ended"
                yield json.loads(line) if line else refused(*CASES[done], why)
                done += 1
                if not line:
                    process.kill()
                    break


def main() -> int:
    parser = argparse.ArgumentParser(description="Host time of one call of each variant that keeps its launches.")
    parser.add_argument("--json", type=Path, help="write the document here")
    parser.add_argument("--from-case", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.from_case is not None:
        child(asked.from_case)
        return 0
    if asked.json is None:
        parser.error("--json is needed")
    from kernels.measure.environment import environment_info

    ctypes.CDLL("libcuda.so.1")  # fails at once on a machine without a driver
    document: dict[str, Any] = {**environment_info(), "calls": CALLS, "torch": of_torch(), "rows": []}
    print(document["torch"], flush=True)
    for found in rows():
        document["rows"].append(found)
        asked.json.write_text(json.dumps(document, indent=1) + "\n")  # what is stopped keeps the rows until then
        times = (
            f"{name} {found[name][0]:6.2f}" for name in ("checked", "checked_out", "unchecked_out") if name in found
        )
        print(f"{found['variant']:<18} {found.get('refused') or ' '.join(times)}  {found['params']}", flush=True)
    return int(any("refused" in found for found in document["rows"]))


if __name__ == "__main__":
    sys.exit(main())
