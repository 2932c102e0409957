"""vLLM through HTTP without and with the plug-in of `clients/vllm`, in turns, and where a step of each goes.

    python -m benchmarks.vllm_plugin --site FOLDER [--model llama-3.2-1b] [--users N] --json OUT

The loads are those of `kernels bench serve`; `KERNELS_VLLM_PYTHON` names vLLM's Python. `--site` is the folder of
packages of vLLM's environment: the plug-in lies there already, and this adds one that times vLLM's engine
(`vllm_probe.py`) for as long as it runs. With `--trace` vLLM's own profiler traces steps of one and of 32 users: the
kernels of a step and the time between them.
"""

import argparse
import gzip
import json
import os
import shutil
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.cli.bench_document import FACTS
from kernels.cli.bench_serve import Measured, ServeBench, line
from kernels.cli.bench_serve_arguments import serve_arguments
from kernels.cli.served_model import prepared
from kernels.load.lists import Lengths
from kernels.measure.environment import current_device
from kernels.runners.vllm_runner import PYTHON_VARIABLE

TRACED = (1, 32)
"""Users whose steps are traced."""
LONGEST_GAP_US = 20_000.0
"""Longer pauses between kernels lie between requests, not between steps."""
MOST_KERNELS = 14
LEAST_OF_A_GRAPH = 40
"""Kernels that one launch has, at least, if it is that of a step's graph."""


def steps_of(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What the steps of a trace took on the GPU, µs a step: a step has one launch of a graph.

    `graph` is from a graph's first kernel to the end of its last one, `busy` the kernels in graphs and others, `idle`
    the time without any, and `kernels` are the longest, with their calls a step.
    """
    kernels = sorted(
        (event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"]
    )
    graphs: dict[Any, list[dict[str, Any]]] = {}
    for kernel in kernels:
        graphs.setdefault(kernel["args"].get("correlation"), []).append(kernel)
    decodes = [launch for launch in graphs.values() if len(launch) >= LEAST_OF_A_GRAPH]
    if not decodes:
        return {"launches": len(graphs), "kernels": len(kernels)}
    begin, end = min(g[0]["ts"] for g in decodes), max(g[-1]["ts"] + g[-1]["dur"] for g in decodes)
    inside = [kernel for kernel in kernels if begin <= kernel["ts"] <= end]
    busy, idle, until = 0.0, 0.0, begin
    for kernel in inside:
        last = kernel["ts"] + kernel["dur"]
        gap = kernel["ts"] - until
        idle += gap if 0 < gap < LONGEST_GAP_US else 0
        busy += max(0.0, last - max(until, kernel["ts"]))
        until = max(until, last)
    count, took, calls = len(decodes), Counter[str](), Counter[str]()
    for kernel in inside:
        took[kernel["name"][:90]] += kernel["dur"]
        calls[kernel["name"][:90]] += 1
    spans = sorted(g[-1]["ts"] + g[-1]["dur"] - g[0]["ts"] for g in decodes)
    return {
        "steps": count,
        "graph_us": round(spans[len(spans) // 2], 1),
        "graph_kernels": sorted(map(len, decodes))[count // 2],
        "busy_us": round(busy / count, 1),
        "idle_us": round(idle / count, 1),
        "kernels": [
            {"kernel": name, "us": round(us / count, 1), "calls": round(calls[name] / count, 1)}
            for name, us in took.most_common(MOST_KERNELS)
        ],
    }


@contextmanager
def probed(site: Path, times: Path) -> Iterator[dict[str, str]]:
    """The variables with which vLLM's processes write the times of its engine to `times`."""
    info = site / "vllm_probe-0.dist-info"
    info.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("vllm_probe.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-probe\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nprobe = vllm_probe:register\n")
    try:
        yield {"VLLM_PROBE": str(times)}
    finally:
        shutil.rmtree(info)
        (site / "vllm_probe.py").unlink()


def traced(bench: ServeBench, url: str, users: int, folder: Path) -> dict[str, Any]:
    """The steps of a few requests of so many users, by vLLM's own profiler."""
    seen = set(folder.rglob("*.json.gz"))
    _post(f"{url}/start_profile")
    bench._send(url, bench._list(bench.lengths, users, seed=9), users)
    _post(f"{url}/stop_profile")
    until = time.monotonic() + 20
    while not (fresh := [p for p in set(folder.rglob("*.json.gz")) - seen if "async_llm" not in p.name]):
        if time.monotonic() > until:
            return {"error": "no trace came"}
        time.sleep(0.5)
    time.sleep(1)
    with gzip.open(fresh[0]) as trace:
        return {"users": users} | steps_of(json.load(trace)["traceEvents"])


def _post(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60).read()


def arguments() -> argparse.ArgumentParser:
    """Those of `bench serve` for one GPU and bf16, and the turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    serve_arguments(parser)
    parser.add_argument("--model", default="llama-3.2-1b")
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    turns = "servers, one after the other; vllm_plugin+3 makes three further tokens of each sequence in a pass"
    parser.add_argument("--turns", nargs="+", default=["vllm", "vllm_plugin"], help=turns)
    parser.add_argument("--trace", nargs="*", default=[], metavar="TURN", help="turns whose steps are traced too")
    parser.set_defaults(tensor_parallel_size=None, weights=None, vllm_plugin=True)
    return parser


def main() -> int:
    options = arguments().parse_args()
    options.vllm = options.vllm or os.environ[PYTHON_VARIABLE]
    users = options.users or [1, 8, 32, 128]
    here = current_device()[2]
    facts = {name: here.get(name) for name in (*FACTS, "versions")}
    document: dict[str, Any] = {**facts, "model": options.model, "rows": [], "engine": [], "traces": []}
    with tempfile.TemporaryDirectory(prefix="vllm-plugin-") as scratch:
        folder = Path(scratch)
        model = prepared(options.model, "bf16", "cuda", folder / "model")
        bench = ServeBench(options, model, users, Lengths(128, 64), {}, folder)
        measured: list[Measured] = []
        for turn, variant in enumerate(options.turns):
            traces, times = folder / f"traces-{turn}", folder / f"times-{turn}.json"
            options.vllm_option = []
            if variant in options.trace:
                config = {"profiler": "torch", "torch_profiler_dir": str(traces), "torch_profiler_with_stack": False}
                options.vllm_option = [f"--profiler-config={json.dumps(config)}"]
            name, _, drafts = variant.partition("+")
            server = next(offered for offered in bench.servers() if offered.variant == name)
            if drafts:
                speculative = {"method": "ngram_gpu", "num_speculative_tokens": int(drafts)}
                command = [*server.command, f"--speculative-config={json.dumps(speculative)}"]
                environment = {**server.environment, "KERNELS_SEVERAL_TOKENS": "1"}
                server = replace(server, variant=variant, command=command, environment=environment)
            with probed(options.site, times) as probe:
                server = replace(server, environment={**server.environment, **probe})
                url = f"http://127.0.0.1:{server.command[server.command.index('--port') + 1]}"
                began = time.monotonic()
                for load in bench.rows(server):
                    print(f"{time.monotonic() - began:.0f} s {line(load.row)}", flush=True)
                    measured.append(load)
                    document["rows"].append(load.row)
                    if load.row.failed or load.row.tokens_per_second is None:
                        break
                    if variant in options.trace and load.row.case.concurrency == users[-1]:
                        for count in TRACED:
                            trace = {"turn": turn, "variant": variant} | traced(bench, url, count, traces)
                            document["traces"].append(trace)
                            print(json.dumps(trace), flush=True)
            log = (folder / f"{variant}.log").read_text(errors="replace").splitlines()
            print(*[text for text in log if "KERNELS_PLAN" in text], sep="\n", flush=True)
            if measured[-1].row.failed:
                print(*[text for text in log if "ERROR" in text][:60], *log[-40:], sep="\n", flush=True)
            if times.exists():
                document["engine"].append({"turn": turn, "variant": variant, "times": json.loads(times.read_text())})
                for key, parts in document["engine"][-1]["times"].items():
                    print(f"{variant} {key}: {json.dumps(parts)}", flush=True)
            _write(options.json, document)
        bench.judge(measured)
        _write(options.json, document)
        for row in (load.row for load in measured):
            print(row.variant, row.case.concurrency, row.gate, row.logit_gaps, row.reason)
    return 0


def _write(path: Path, document: dict[str, Any]) -> None:
    rows = [row.model_dump() for row in document["rows"]]
    path.write_text(json.dumps(document | {"rows": rows}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
