"""Load generators beside each other, held against the times at which a stub server wrote its tokens.

    python -m benchmarks.load_generators --openai PYTHON --aiperf PROGRAM --guidellm PROGRAM --json FILE

PYTHON is an interpreter that has the `openai` package; each tool is in an environment of its own, and is left out where
it is not named. The tools alternate. Each sends as many requests with as many users: ours and `openai` the same
prompts, aiperf and guidellm their own of as many tokens.

`off` is what counts for all of them: their figures less those of the stub's log, the median time to first token and per
output token in ms, the requests per second as a share. Of ours and of `openai` each token's time is known, so they have
more: how late the first token was seen, request by request, and the error of the time per output token.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.host import load_average, machine
from benchmarks.load_tools import Job, aiperf, guidellm
from kernels.load.connection import Address, Connections
from kernels.load.exchange import Exchange
from kernels.load.planned import PlannedRequest
from kernels.measure.environment import commit
from kernels.measure.intervals import percentile
from workers.documents.traffic import Traffic
from workers.loadtest.prompts import body

HERE = Path(__file__).parent
ROUNDS = 3
PROMPT = 100
"""Words of a prompt, or tokens of one that a tool makes up."""


def ours(url: str, prompts: Sequence[str], tokens: int, concurrency: int) -> dict[str, Any]:
    async def run() -> list[Exchange]:
        connections, sent, rest = Connections(Address.parse(url)), [], iter(enumerate(prompts))

        async def user() -> None:
            for index, prompt in rest:
                planned = PlannedRequest(index, None, 0.0, len(prompt.split()), tokens)
                content = body("completions", "stub", prompt, planned, Traffic())
                exchange = Exchange(planned, time.monotonic_ns())
                await connections.send("/completions", content, True, exchange, 60)
                sent.append(exchange)

        await asyncio.gather(*(user() for _ in range(concurrency)))
        connections.close()
        return sent

    began = time.process_time()
    exchanges = asyncio.run(run())
    rows = [
        {"prompt": prompts[sent.planned.index], "intended_ns": sent.intended_ns, "token_ns": sent.token_ns}
        for sent in exchanges
    ]
    return {"version": commit(), "cpu_s": time.process_time() - began, "rows": rows}


def the_openai_package(python: str, url: str, prompts: Sequence[str], tokens: int, concurrency: int) -> dict[str, Any]:
    request = {"url": url, "prompts": prompts, "tokens": tokens, "concurrency": concurrency}
    command = [python, str(HERE / "openai_client.py")]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def compare_figures(result: dict[str, Any], log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far a tool's figures are from those of the stub's log, in ms and as shares; `rows` are matched by prompt."""
    truth = {row["prompt"]: row["token_ns"] for row in log}
    pairs = [(row["token_ns"], truth[row["prompt"]], row["intended_ns"]) for row in result["rows"]]
    assert all(len(read) == len(wrote) for read, wrote, _ in pairs)
    first = sorted((read[0] - wrote[0]) / 1e6 for read, wrote, _ in pairs)
    gap = sorted(
        abs((read[-1] - read[0]) - (wrote[-1] - wrote[0])) / 1e6 / (len(wrote) - 1) for read, wrote, _ in pairs
    )
    spans = [
        max(times[-1] for times in side) - min(start for _, _, start in pairs)
        for side in ([read for read, _, _ in pairs], [wrote for _, wrote, _ in pairs])
    ]
    return {
        "ttft_ms": statistics.median((wrote[0] - start) / 1e6 for _, wrote, start in pairs),
        "ttft_late_ms": {"p50": percentile(first, 50), "p99": percentile(first, 99)},
        "tpot_off_ms": {"p50": percentile(gap, 50), "p99": percentile(gap, 99)},
        "throughput_off": abs(spans[0] / spans[1] - 1),
        "cpu_ms_per_request": 1e3 * result["cpu_s"] / len(pairs),
    }


def off(result: dict[str, Any], log: Sequence[dict[str, Any]]) -> dict[str, float]:
    """A tool's figures less those of the stub's log; `found` has them, or rows to take them from."""
    truth = _figures([(row["read_ns"], row["token_ns"]) for row in log])
    if "rows" in result:
        figures = _figures([(row["intended_ns"], row["token_ns"]) for row in result["rows"]])
    else:
        figures = {"ttft_ms": result["ttft_ms"]["p50"], "tpot_ms": result["tpot_ms"]["p50"]}
        figures["requests_per_second"] = result["requests_per_second"]
    rate = figures["requests_per_second"] / truth["requests_per_second"] - 1
    return {metric: figures[metric] - truth[metric] for metric in ("ttft_ms", "tpot_ms")} | {
        "requests_per_second": rate
    }


def _figures(requests: Sequence[tuple[int, Sequence[int]]]) -> dict[str, float]:
    """The figures of requests, each with the time when it began and those of its tokens, in ns."""
    span = max(tokens[-1] for _, tokens in requests) - min(begin for begin, _ in requests)
    return {
        "ttft_ms": statistics.median((tokens[0] - begin) / 1e6 for begin, tokens in requests),
        "tpot_ms": statistics.median((tokens[-1] - tokens[0]) / 1e6 / (len(tokens) - 1) for _, tokens in requests),
        "requests_per_second": len(requests) / span * 1e9,
    }


def _tools(options: argparse.Namespace, url: str, number: int, folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    prompts = [f"round {number} request {index} " + "word " * PROMPT for index in range(options.requests)]
    sizes = prompts, options.tokens, options.users
    job = Job("stub", options.requests, options.users, PROMPT, options.tokens)
    tools: dict[str, Callable[[], dict[str, Any]]] = {"kernel-workbench": lambda: ours(url, *sizes)}
    if options.openai:
        tools["openai"] = lambda: the_openai_package(options.openai, url, *sizes)
    for name, tool in (("aiperf", aiperf), ("guidellm", guidellm)):
        if program := getattr(options, name):
            output = folder / f"{name}-{number}"
            output.mkdir()
            tools[name] = partial(tool, program, url, output, job)
    return tools


def _log(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/log", timeout=60) as answer:
        log: list[dict[str, Any]] = json.load(answer)
        return log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openai", metavar="PYTHON", help="an interpreter with the openai package")
    parser.add_argument("--aiperf", metavar="PROGRAM")
    parser.add_argument("--guidellm", metavar="PROGRAM")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    command = [sys.executable, "-m", "benchmarks.stub_server", "--first-ms", "20", "--gap-ms", "5"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdout
        url = f"http://127.0.0.1:{int(stub.stdout.readline())}"
        try:
            for number in range(ROUNDS):
                for name, run in _tools(options, url, number, Path(folder)).items():
                    before = {"tool": name, "round": number, "load_average": load_average()[0]}
                    result = run()
                    log = [row for row in _log(url) if len(row["token_ns"]) == options.tokens]
                    rows.append(before | {"version": result["version"], "requests": len(log), "off": off(result, log)})
                    rows[-1] |= compare_figures(result, log) if "rows" in result else {}
                    print(json.dumps(rows[-1]), flush=True)
        finally:
            stub.terminate()
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
        "commit": commit(),
        "stub": {"first_ms": 20, "gap_ms": 5},
        "requests": options.requests,
        "users": options.users,
        "tokens": options.tokens,
        "rows": rows,
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
