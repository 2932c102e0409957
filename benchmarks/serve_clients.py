"""Other people's clients against `kernels serve`, unchanged: aiperf and guidellm; and our own.

    python -m benchmarks.serve_clients --aiperf PROGRAM --guidellm PROGRAM --json FILE

Each lives in an environment of its own, and is left out where it is not named. The server runs the sample model on this
machine's CPU. What is kept is whether each tool took the server for an OpenAI server: its version, what it asked, how
many of its requests it counted as answered, and its own figures. The workbench's generator comes first, so that these
can be compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.host import load_average, machine
from kernels.load.connection import Address
from kernels.load.generator import LoadDuration
from kernels.load.server_process import reserved_port, running
from kernels.measure.environment import commit
from workers.documents.traffic import Traffic
from workers.loadtest.measuring import LoadTest, measure
from workers.loadtest.sending import LoadTarget

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "samples" / "voice-agent"
SECONDS = 900
TTFT, GAP = "time_to_first_token_ms", "inter_token_latency_ms"
"""guidellm's names of the metrics."""


class Job(NamedTuple):
    """What a load generator is to send: `requests` of `prompt` and `tokens` tokens each, by `users` at once."""

    model: str
    requests: int
    users: int
    prompt: int
    tokens: int


JOB = Job(MODEL.name, 200, 4, 30, 12)
OWN_SECONDS = LoadDuration(30, warm_up_s=3)


def called(command: list[str], **more: str) -> str:
    """What a tool prints, with `more` variables. Raises RuntimeError with the end of what it said when it fails."""
    environment = os.environ | {"PYTHONPATH": ""} | more
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def the_workbench(url: str, job: Job = JOB) -> dict[str, Any]:
    """A closed loop for OWN_SECONDS by what `workbench measure` runs."""
    traffic = Traffic(prompt_tokens=job.prompt, output_tokens=job.tokens, concurrency=job.users)
    shown = ("ttft", None), ("tpot", None)
    test = LoadTest(LoadTarget(Address.parse(f"{url}/v1"), job.model), traffic, [], OWN_SECONDS, shown=shown)
    load, _ = measure(test)
    ttft, tpot = (next(each.percentiles for each in load.metrics if each.metric == name) for name, _ in shown)
    return {
        "version": commit(),
        "asked": load.requests,
        "answered": load.completed,
        "errors": len(load.failures),
        "ttft_ms": {each: ttft[each].value for each in ("p50", "p99")},
        "tpot_ms": {"p50": tpot["p50"].value},
        "requests_per_second": load.requests_per_second,
    }


def aiperf(program: str, url: str, folder: Path, job: Job = JOB) -> dict[str, Any]:
    """A closed loop, streamed, counted by the server's own usage."""
    asked = {"--model": job.model, "--url": url, "--endpoint-type": "completions", "--concurrency": str(job.users)}
    asked |= {
        "--request-count": str(job.requests),
        "--tokenizer": str(MODEL),
        "--artifact-dir": str(folder),
        "--ui": "none",
    }
    asked |= {"--synthetic-input-tokens-mean": str(job.prompt), "--output-tokens-mean": str(job.tokens)}
    asked |= {"--extra-inputs": "ignore_eos:true"}
    words = [word for pair in asked.items() for word in pair]
    called([program, "profile", "--streaming", "--use-server-token-count", *words])
    told = json.loads((folder / "profile_export_aiperf.json").read_text())
    return {
        "version": told["aiperf_version"],
        "asked": job.requests,
        "answered": int(told["request_count"]["avg"]),
        "errors": told["error_summary"],
        "ttft_ms": {each: told["time_to_first_token"][each] for each in ("p50", "p99")},
        "tpot_ms": {"p50": told["inter_token_latency"]["p50"]},
        "requests_per_second": told["request_throughput"]["avg"],
        "output_tokens": told["usage_completion_tokens"]["avg"],
    }


def guidellm(program: str, url: str, folder: Path, job: Job = JOB) -> dict[str, Any]:
    """A closed loop over text completions."""
    path = folder / "guidellm.json"
    command = [program, "run", "--disable-progress", "--profile", f"kind=concurrent,streams={job.users}"]
    command += ["--backend", f"kind=openai_http,target={url},model={job.model},request_format=/v1/completions"]
    command += ["--constraint", f"kind=max_requests,count={job.requests}"]
    command += ["--tokenizer", f"kind=huggingface_auto,model={MODEL}"]
    command += ["--data", f"kind=synthetic_text,prompt_tokens={job.prompt},output_tokens={job.tokens}"]
    called([*command, "--output", f"kind=json,path={path}"], HF_HUB_OFFLINE="1")
    (run,) = json.loads(path.read_text())["benchmarks"]
    metrics = run["metrics"]
    totals = metrics["request_totals"]
    latencies = {each: metrics[each]["successful"]["percentiles"] for each in (TTFT, GAP)}
    return {
        "version": called([program, "--version"]).split()[-1],
        "asked": job.requests,
        "answered": totals["successful"],
        "errors": totals["errored"],
        "ttft_ms": {each: latencies[TTFT][each] for each in ("p50", "p99")},
        "tpot_ms": {"p50": latencies[GAP]["p50"]},
        "requests_per_second": metrics["requests_per_second"]["successful"]["mean"],
    }


TOOLS: dict[str, Callable[[str, str, Path], dict[str, Any]]] = {
    "aiperf": aiperf,
    "guidellm": guidellm,
}


def main() -> int:
    """0 when every tool that was named got all of its answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aiperf", metavar="PROGRAM")
    parser.add_argument("--guidellm", metavar="PROGRAM")
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    port, rows = reserved_port(), []
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "kernels",
        "serve",
        "--model",
        str(MODEL),
        "--max-num-seqs",
        "8",
        "--port",
        str(port),
    ]
    with tempfile.TemporaryDirectory() as folder, running(command, f"{url}/health", Path(folder) / "log", 600):
        rows.append({"client": "kernel-workbench", "load_average": load_average()[0]} | the_workbench(url))
        print(json.dumps(rows[-1]), flush=True)
        for name, tool in TOOLS.items():
            if program := getattr(asked, name):
                own = Path(folder) / name
                own.mkdir()
                rows.append({"client": name, "load_average": load_average()[0]} | tool(program, url, own))
                print(json.dumps(rows[-1]), flush=True)
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
        "commit": commit(),
        "model": "samples/voice-agent",
        "users": JOB.users,
        "rows": rows,
    }
    asked.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return int(any(row["answered"] != row["asked"] or row["errors"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
