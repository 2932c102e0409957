"""A long open load on `kernels serve`: memory over time, lost requests, exact counts of tokens.

    python -m benchmarks.serve_steady --minutes 60 --rate 4 --json benchmarks/results/2-core-epyc/serve-steady.json

Requests of log-normal lengths arrive as Poisson; one in twenty goes away after four tokens. At the end the server's own
counters are held against what was sent, and every KV page must be free again.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.host import load_average, machine
from kernels.load.connection import Address
from kernels.load.exchange import CANCELLED, Exchange
from kernels.load.figures import WARM_SHARE, LoadFigures
from kernels.load.generator import Generator, LoadDuration, LoadTrace
from kernels.load.lists import Lengths, RequestList
from kernels.load.server_process import reserve_port, run_server
from kernels.measure import nvml
from kernels.measure.environment import environment_info
from kernels.server.spec import Spec, configuration

LENGTHS = Lengths(48, 24, 0.8, 4)
CANCELLED_EACH, CANCELLED_AFTER = 20, 4
EDGE = 0.1
"""Memory is compared between the first and the last tenth, of what was seen after the first tenth."""
MIB = 1 << 20


@dataclass
class Memory:
    """Resident MiB of the server's processes over time, and the memory in use of `gpus` of NVML."""

    process: psutil.Process
    seconds: float
    gpus: Sequence[Any] = ()
    rows: list[dict[str, float]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        began = time.monotonic()
        while not self.stop.wait(self.seconds):
            children = self.process.children(recursive=True)
            engine = sum(child.memory_info().rss for child in children) / MIB
            own = self.process.memory_info()
            row = {"s": round(time.monotonic() - began, 1), "server": round(own.rss / MIB, 1)}
            row["engine"] = round(engine, 1)
            if self.gpus:
                used = sum(nvml.library().nvmlDeviceGetMemoryInfo(gpu).used for gpu in self.gpus)
                row["gpu"] = round(used / MIB, 1)
            self.rows.append(row)

    def growth(self, which: str) -> float | None:
        """MiB between the medians of the first and of the last tenth; None where there are too few rows."""
        rows = [row[which] for row in self.rows if which in row][len(self.rows) // 10 :]
        edge = int(EDGE * len(rows))
        return round(statistics.median(rows[-edge:]) - statistics.median(rows[:edge]), 1) if edge else None


def metrics(url: str) -> dict[str, float]:
    """The server's metrics without labels, by name."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name.removeprefix("serve_"): float(value) for name, value in pairs}


def until_idle(url: str, seconds: float = 60) -> dict[str, float]:
    """The metrics once no request runs or waits; those at the end of the time where some still do."""
    end = time.monotonic() + seconds
    while True:
        values = metrics(url)
        if not values["running_requests"] + values["waiting_requests"] or time.monotonic() > end:
            return values
        time.sleep(0.3)


def with_cancellations(requests: RequestList) -> RequestList:
    planned = [
        replace(request, cancel_after=CANCELLED_AFTER) if request.index % CANCELLED_EACH == 0 else request
        for request in requests.planned
    ]
    return replace(requests, planned=planned)


def send(url: str, name: str, requests: RequestList, seconds: float) -> LoadTrace:
    limits = LoadDuration(seconds, WARM_SHARE * seconds)
    return asyncio.run(Generator(Address.parse(url), requests.load(name, None), limits).run())


def count_exchanges(exchanges: Sequence[Exchange], memory: dict[str, float]) -> dict[str, Any]:
    """What was sent, answered and lost, and what the server counted at the same time."""
    ended = [exchange for exchange in exchanges if exchange.ended and exchange.ended != CANCELLED]
    failed = [exchange for exchange in exchanges if exchange.error]
    unlike = [exchange for exchange in ended if exchange.tokens != exchange.planned.output_tokens]
    return {
        "requests": len(exchanges),
        "answered": len(ended),
        "gone_away": sum(exchange.ended == CANCELLED for exchange in exchanges),
        "lost": len(failed),
        "first_failures": [exchange.sentence for exchange in failed[:3]],
        "answers_of_another_length": len(unlike),
        "prompt_tokens": sum(exchange.planned.prompt_tokens for exchange in exchanges),
        "prompt_tokens_counted_by_the_server": int(memory["prompt_tokens_total"]),
        "tokens_of_whole_answers": sum(exchange.planned.output_tokens for exchange in ended),
        "tokens_counted_by_the_server": int(memory["generated_tokens_total"]),
    }


def main(arguments: list[str] | None = None) -> int:
    """0 when nothing was lost, every count is exact and all pages are free; 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="samples/voice-agent", help="a directory with weights, or a catalogue name")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=4, help="requests a second")
    parser.add_argument("--max-num-seqs", type=int, default=16, help="of the server: requests served at once")
    parser.add_argument("--web-processes", type=int, help="of the server; their memory counts with the engine's")
    parser.add_argument("--tensor-parallel-size", type=int, default=1, help="of the server: GPUs that share the model")
    parser.add_argument("--sample-seconds", type=float, default=5)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    seconds = 60 * options.minutes
    count = int(seconds * options.rate * 1.2) + 20
    vocabulary = configuration(Spec(options.model))[1]["vocab_size"]
    requests = with_cancellations(RequestList.random(LENGTHS, count, vocabulary, 1, options.rate))
    port, before, environment = reserve_port(), load_average(), environment_info()
    size = options.tensor_parallel_size
    gpus = [nvml.handle(index) for index in range(size)] if environment["gpu_class"] != "cpu" else []
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "kernels", "serve", "--model", options.model, "--name", "model"]
    command += ["--port", str(port), "--tensor-parallel-size", str(size)]
    command += ["--max-num-seqs", str(options.max_num_seqs), "--max-model-len", str(LENGTHS.longest)]
    command += ["--web-processes", str(options.web_processes)] if options.web_processes else []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(command, f"{url}/health", Path(folder) / "log", 600) as server,
    ):
        memory = Memory(psutil.Process(server.pid), options.sample_seconds, gpus)
        watcher = threading.Thread(target=memory.watch, daemon=True)
        watcher.start()
        began = time.monotonic()
        sent = send(url, "model", requests, seconds)
        lasted = time.monotonic() - began
        idle_memory = until_idle(url)
        memory.stop.set()
        watcher.join()
    figures = LoadFigures([sent])
    counts = count_exchanges(sent.exchanges, idle_memory)
    exact = counts["prompt_tokens"] == counts["prompt_tokens_counted_by_the_server"]
    free = idle_memory["free_kv_pages"] == idle_memory["kv_pages"]
    steady = not counts["lost"] and not counts["answers_of_another_length"] and exact and free
    document = {
        **environment,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
        "load_average": {"before": before[0], "after": load_average()[0]},
        "model": options.model,
        "minutes": round(lasted / 60, 1),
        "rate": options.rate,
        "max_num_seqs": options.max_num_seqs,
        "web_processes": options.web_processes,
        "tensor_parallel_size": size,
        "lengths": {"prompt": LENGTHS.prompt, "tokens": LENGTHS.tokens, "drawn": LENGTHS.described},
        **counts,
        "all_pages_free_again": free,
        "engine_restarts": int(idle_memory["engine_restarts_total"]),
        "growth_mib": {which: memory.growth(which) for which in ("server", "engine", "gpu")},
        "ttft_ms": figures.percentiles("ttft"),
        "tpot_ms": figures.percentiles("tpot"),
        "steady": steady,
        "memory_mib": memory.rows,
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    print(json.dumps({name: value for name, value in document.items() if name != "memory_mib"}, indent=1))
    return int(not steady)


if __name__ == "__main__":
    raise SystemExit(main())
