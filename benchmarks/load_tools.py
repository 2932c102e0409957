"""Public load generators, each in an environment of its own: how they are called and what of their reports is kept."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

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


LOCUST = """\
from locust import FastHttpUser, task

class Client(FastHttpUser):
    @task
    def completion(self):
        self.client.post("/v1/completions", json={"model": "%s", "prompt": "A list is", "max_tokens": %d})
"""


def run_tool(command: list[str], **kwargs: str) -> str:
    """What a tool prints, with `kwargs` variables. Raises RuntimeError with the end of its errors when it fails."""
    environment = os.environ | {"PYTHONPATH": ""} | kwargs
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def aiperf(program: str, url: str, folder: Path, job: Job) -> dict[str, Any]:
    """A closed loop, streamed, counted by the server's own usage."""
    options = {"--model": job.model, "--url": url, "--endpoint-type": "completions", "--concurrency": str(job.users)}
    options |= {
        "--request-count": str(job.requests),
        "--tokenizer": str(MODEL),
        "--artifact-dir": str(folder),
        "--ui": "none",
    }
    options |= {"--synthetic-input-tokens-mean": str(job.prompt), "--output-tokens-mean": str(job.tokens)}
    options |= {"--extra-inputs": "ignore_eos:true"}
    words = [word for pair in options.items() for word in pair]
    run_tool([program, "profile", "--streaming", "--use-server-token-count", *words])
    report = json.loads((folder / "profile_export_aiperf.json").read_text())
    return {
        "version": report["aiperf_version"],
        "asked": job.requests,
        "answered": int(report["request_count"]["avg"]),
        "errors": report["error_summary"],
        "ttft_ms": {percent: report["time_to_first_token"][percent] for percent in ("p50", "p99")},
        "tpot_ms": {"p50": report["inter_token_latency"]["p50"]},
        "requests_per_second": report["request_throughput"]["avg"],
        "output_tokens": report["usage_completion_tokens"]["avg"],
    }


def guidellm(program: str, url: str, folder: Path, job: Job) -> dict[str, Any]:
    """A closed loop over text completions."""
    path = folder / "guidellm.json"
    command = [program, "run", "--disable-progress", "--profile", f"kind=concurrent,streams={job.users}"]
    command += ["--backend", f"kind=openai_http,target={url},model={job.model},request_format=/v1/completions"]
    command += ["--constraint", f"kind=max_requests,count={job.requests}"]
    command += ["--tokenizer", f"kind=huggingface_auto,model={MODEL}"]
    command += ["--data", f"kind=synthetic_text,prompt_tokens={job.prompt},output_tokens={job.tokens}"]
    run_tool([*command, "--output", f"kind=json,path={path}"], HF_HUB_OFFLINE="1")
    (run,) = json.loads(path.read_text())["benchmarks"]
    metrics = run["metrics"]
    totals = metrics["request_totals"]
    latencies = {metric: metrics[metric]["successful"]["percentiles"] for metric in (TTFT, GAP)}
    return {
        "version": run_tool([program, "--version"]).split()[-1],
        "asked": job.requests,
        "answered": totals["successful"],
        "errors": totals["errored"],
        "ttft_ms": {percent: latencies[TTFT][percent] for percent in ("p50", "p99")},
        "tpot_ms": {"p50": latencies[GAP]["p50"]},
        "requests_per_second": metrics["requests_per_second"]["successful"]["mean"],
    }


def locust(program: str, url: str, folder: Path, job: Job) -> dict[str, Any]:
    """Completions for three seconds."""
    file = folder / "locustfile.py"
    file.write_text(LOCUST % (job.model, job.tokens))
    load = ["--users", str(job.users), "--spawn-rate", str(job.users), "--run-time", "3s"]
    printed = run_tool([program, "-f", str(file), "--headless", "--json", "--only-summary", *load, "--host", url])
    (row,) = json.loads(printed)
    return {"asked": row["num_requests"], "answered": row["num_requests"] - row["num_failures"], "errors": 0}


def genai_bench(program: str, url: str, folder: Path, job: Job) -> dict[str, Any]:
    """Chats of one size, streamed."""
    command = [program, "benchmark", "--api-backend", "openai", "--api-base", url, "--api-key", "none"]
    command += ["--api-model-name", job.model, "--model-tokenizer", str(MODEL), "--task", "text-to-text"]
    command += ["--traffic-scenario", f"D({job.prompt},{job.tokens})", "--num-concurrency", str(job.users)]
    command += ["--max-requests-per-run", str(job.requests), "--max-time-per-run", "1"]
    command += ["--log-dir", str(folder)]
    run_tool([*command, "--experiment-base-dir", str(folder)], HF_HUB_OFFLINE="1")
    (path,) = folder.glob("*/D*.json")
    metrics = json.loads(path.read_text())["aggregated_metrics"]
    return {
        "asked": metrics["num_requests"],
        "answered": metrics["num_completed_requests"],
        "errors": metrics["num_error_requests"],
    }


def inference_perf(program: str, url: str, folder: Path, job: Job) -> dict[str, Any]:
    """Streamed completions at two requests a second."""
    configuration, rate = folder / "configuration.yaml", 2
    lengths = {
        f"{part}_distribution": {"type": "fixed", "mean": tokens, "min": tokens, "max": tokens, "std_dev": 0}
        for part, tokens in (("input", job.prompt), ("output", job.tokens))
    }
    settings = {
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random"} | lengths,
        "load": {"type": "constant", "stages": [{"rate": rate, "duration": job.requests // rate}], "num_workers": 1},
        "server": {"type": "vllm", "model_name": job.model, "base_url": url, "ignore_eos": True},
        "tokenizer": {"pretrained_model_name_or_path": str(MODEL)},
        "storage": {"local_storage": {"path": str(folder)}},
    }
    configuration.write_text(json.dumps(settings))
    run_tool([program, "--config_file", str(configuration)], HF_HUB_OFFLINE="1")
    report = json.loads((folder / "summary_lifecycle_metrics.json").read_text())
    answered, errors = report["successes"]["count"], report["failures"]["count"]
    return {"asked": job.requests, "answered": answered, "errors": errors}
