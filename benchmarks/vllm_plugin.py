"""vLLM through HTTP without and with the plug-in of `clients/vllm`, in turns, and where a step of each goes.

    python -m benchmarks.vllm_plugin --site FOLDER [--model llama-3.2-1b] [--users N] --json OUT

All servers are started at once and share the GPU's memory; then one after the other gets every load, `--turns` times,
while the others wait. So each is compared with itself as well. The loads are those of `kernels bench serve`;
`KERNELS_VLLM_PYTHON` names vLLM's Python. `--site` is the folder of packages of vLLM's environment: the plug-in lies
there already, and this adds one that times vLLM's engine (`vllm_probe.py`) for as long as it runs. With `--trace`
vLLM's own profiler traces steps of one and of 32 users: the kernels of a step and the time between them.
"""

import argparse
import gzip
import itertools
import json
import os
import shutil
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.cli.bench_document import FACTS
from kernels.cli.bench_serve import Measured, ServeBench, format_row
from kernels.cli.bench_serve_arguments import serve_arguments
from kernels.cli.served_model import prepare_model
from kernels.load.lists import Lengths
from kernels.load.server_process import NotStarted, reserve_port, run_server
from kernels.load.vllm_server import ServerCommand, ServerSettings, vllm, with_plan
from kernels.measure.environment import current_device
from kernels.plan import Plan
from kernels.runners.vllm_runner import PYTHON_VARIABLE, environment

KV_BYTES, MEMORY_SHARE = 5 << 30, 0.1
"""What each server takes for its KV pages, and the share of the GPU's memory that must be free when it starts."""
SPARE_TOKENS = 64
"""A sequence may be so much longer than these. Nearer to its end vLLM schedules fewer tokens a pass."""
UNEQUAL = 32
"""Users whose prompts and answers have log-normal lengths: most passes read a prompt beside the tokens of others."""
START_SECONDS = 240.0
TRACED = (1, 32)
"""Users whose steps are traced."""
LONGEST_GAP_US = 20_000.0
"""Longer pauses between kernels lie between requests, not between steps."""
MAX_KERNELS = 14
MIN_GRAPH_KERNELS = 40
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
    decodes = [launch for launch in graphs.values() if len(launch) >= MIN_GRAPH_KERNELS]
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
            for name, us in took.most_common(MAX_KERNELS)
        ],
    }


@contextmanager
def probed(site: Path) -> Iterator[Callable[[str], dict[str, str]]]:
    """The variables with which vLLM's processes write the times of its engine to `times-VARIANT.json` of the folder."""
    info = site / "vllm_probe-0.dist-info"
    info.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("vllm_probe.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-probe\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nprobe = vllm_probe:register\n")
    try:
        yield lambda variant: {"VLLM_PROBE": str(site / f"times-{variant}.json")}
    finally:
        shutil.rmtree(info)
        (site / "vllm_probe.py").unlink()


def trace_steps(bench: ServeBench, url: str, users: int, folder: Path) -> dict[str, Any]:
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    serve_arguments(parser)
    parser.add_argument("--model", default="llama-3.2-1b")
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    servers = "vllm_plugin-int8 has int8 weights; vllm_plugin+3 makes three further tokens of each sequence in a pass; "
    servers += "vllm_plugin+3eager launches them kernel by kernel beside prompts"
    parser.add_argument("--servers", nargs="+", default=["vllm", "vllm_plugin"], help=servers)
    parser.add_argument("--turns", type=int, default=2, help="how often each server gets every load")
    parser.add_argument("--rounds", type=int, default=10, help="requests for each user in a turn")
    parser.add_argument("--seconds", type=float, default=300, help="no load begins later; then answers are judged")
    parser.add_argument("--trace", nargs="*", default=[], metavar="SERVER", help="servers whose steps are traced too")
    parser.set_defaults(tensor_parallel_size=None, weights=None)
    return parser


def started_as(bench: ServeBench, variant: str, plan: Path) -> ServerCommand:
    """The server `vllm`, or `vllm_plugin[-WEIGHTS][+DRAFTS[eager]]`, whose caches are its own: all start at once."""
    named, _, drafts = variant.partition("+")
    name, _, weights = named.partition("-")
    options = [f"--kv-cache-memory-bytes={KV_BYTES}", *(bench.options.vllm_option or [])]
    given = {**environment(), "VLLM_CACHE_ROOT": str(bench.folder / f"cache-{variant}")}
    if drafts.endswith("eager"):
        given["VLLM_PROBE_EAGER"] = "1"
    if variant in bench.options.trace:
        traces = {"profiler": "torch", "torch_profiler_dir": str(bench.folder / f"traces-{variant}")}
        options.append(f"--profiler-config={json.dumps(traces | {'torch_profiler_with_stack': False})}")
    model, longest = bench.model, bench.unequal_lengths.longest + SPARE_TOKENS
    settings = ServerSettings(
        model.directory, model.name, model.dtype, reserve_port(), longest, max(bench.users), MEMORY_SHARE
    )
    server = vllm(settings, bench.options.vllm, given, options)
    if name != "vllm":
        document = Plan.model_validate_json(plan.read_text())
        path = bench.folder / f"plan-{weights or 'bf16'}.json"
        path.write_text(document.model_copy(update={"options": {"weights": weights or "bf16"}}).model_dump_json())
        server = with_plan(server, path, int(drafts.removesuffix("eager") or 0))
    return replace(server, variant=variant, settings=server.settings | ({"weights": weights} if weights else {}))


@contextmanager
def all_running(bench: ServeBench, servers: list[ServerCommand], site: Path) -> Iterator[dict[str, str]]:
    """Starts them together. The URLs of those that answer, by variant; what the others said is printed."""
    urls: dict[str, str] = {}
    with ExitStack() as stack, ThreadPoolExecutor(len(servers)) as pool:
        times = stack.enter_context(probed(site))

        def start(server: ServerCommand) -> None:
            url = f"http://127.0.0.1:{server.command[server.command.index('--port') + 1]}"
            log, given = bench.folder / f"{server.variant}.log", {**server.environment, **times(server.variant)}
            try:
                stack.enter_context(run_server(server.command, f"{url}/health", log, START_SECONDS, given))
                urls[server.variant] = url
            except NotStarted as error:
                print(f"{server.variant}: {error}", flush=True)

        list(pool.map(start, servers))
        yield urls


def main() -> int:
    options = arguments().parse_args()
    options.vllm = options.vllm or os.environ[PYTHON_VARIABLE]
    users = options.users or [1, 8, 32, 128]
    here = current_device()[2]
    facts = {name: here.get(name) for name in (*FACTS, "versions")}
    document: dict[str, Any] = {**facts, "model": options.model, "rows": [], "engine": {}, "traces": []}
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:.0f} s {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="vllm-plugin-") as scratch:
        folder = Path(scratch)
        model = prepare_model(options.model, "bf16", "cuda", folder / "model")
        bench = ServeBench(options, model, users, Lengths(128, 64), {}, folder, options.rounds)
        plan, measured = bench.plan_file(), list[Measured]()
        servers = [started_as(bench, variant, plan) for variant in options.servers]
        say("starting the servers")
        with all_running(bench, servers, options.site) as urls:
            say(f"running: {', '.join(urls)}")
            for server in servers * options.turns:
                if server.variant not in urls:
                    continue
                for lengths, count in (*((bench.lengths, count) for count in users), (bench.unequal_lengths, UNEQUAL)):
                    if time.monotonic() - began > options.seconds:
                        break
                    load = bench.run_closed_loop(server, urls[server.variant], lengths, count)
                    say(format_row(load.row))
                    measured.append(load)
                    document["rows"].append(load.row)
                    _write(options.json, document)
                    if load.row.failed or load.row.tokens_per_second is None:
                        del urls[server.variant]
                        break
            for variant, count in itertools.product(options.trace, TRACED):
                if variant in urls:
                    trace = {"variant": variant} | trace_steps(
                        bench, urls[variant], count, folder / f"traces-{variant}"
                    )
                    document["traces"].append(trace)
                    say(json.dumps(trace))
        for server in servers:
            log = (folder / f"{server.variant}.log").read_text(errors="replace").splitlines()
            print(*[text for text in log if "KERNELS_" in text or "Graph capturing" in text], sep="\n", flush=True)
            if server.variant not in urls:
                print(*[text for text in log if "ERROR" in text][:60], *log[-40:], sep="\n", flush=True)
            if (times := options.site / f"times-{server.variant}.json").exists():
                document["engine"][server.variant] = json.loads(times.read_text())
                times.unlink()
                for key, parts in document["engine"][server.variant].items():
                    print(f"{server.variant} {key}: {json.dumps(parts)}", flush=True)
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
