"""How far the model that predicts a plan's figures is off, over the committed results of H200s and H100s.

python -m benchmarks.predicted_errors     # every figure: predicted, measured, error, and the roofline's error
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.documents import RESULTS, document
from kernels.measure.request_case import request_case
from kernels.model_files import catalogue
from kernels.model_files.families import estimated_parameters
from kernels.ops import BYTES
from workers.documents.measurement import Ceilings
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedPlan
from workers.documents.workload import Workload
from workers.prediction.predict import predict

DECODED = [
    *("decode", "decode-aef7729", "decode-vllm", "decode-vllm-f357c07", "decode-f706c2e", "decode-e6890ad"),
    *("decode-olmoe", "h100x2/decode-1b-b326b1d", "h100x4/decode-1b", "h100x4/decode-8b"),
]
SERVED = ("serve-4895f2b", "serve-194ddaf", "serve-alone", "serve-steps", "serve-megakernel")
RUNS = ("llama-3.2-1b*", "qwen2.5-1.5b*")
TURNS = "megakernel-turns"
CALIBRATED = (
    ("cuda_graphs", "bf16", "llama-3.2-1b", 1),
    ("cuda_graphs", "bf16", "qwen2.5-1.5b", 1),
    ("megakernel", "nvfp4", "llama-3.2-1b", 1),
    ("megakernel", "bf16", "llama-3.2-1b", 8),
    ("megakernel", "bf16", "smollm2-135m", 1, 96),
    ("megakernel", "bf16", "smollm2-360m", 1, 96),
)
"""Runner, weights, model, batch and, of some, prompt of the rows that the model's own constants are taken from: no
errors are theirs."""


@dataclass(frozen=True)
class Error:
    """A predicted figure beside the measured one; `roofline` is what bytes or FLOPs alone predict."""

    source: str
    gpu: str
    runner: str
    weights: str
    model: str
    batch: int
    prompt: int
    metric: str
    predicted: float
    roofline: float
    measured: float

    @property
    def error(self) -> float:
        """Signed, as a share of what was measured."""
        return self.predicted / self.measured - 1

    @property
    def roofline_error(self) -> float:
        return self.roofline / self.measured - 1


def errors() -> list[Error]:
    """Every figure of the committed results that the model predicts, but for those that its constants come from."""
    all_errors = [*_decoded(), *_of_runs(), *_turns(), *_served()]
    return [error for error in all_errors if not any(_is(error, *known) for known in CALIBRATED)]


def _is(error: Error, runner: str, weights: str, model: str, batch: int, prompt: int | None = None) -> bool:
    same = (error.runner, error.weights, error.model, error.batch) == (runner, weights, model, batch)
    return same and prompt in (None, error.prompt)


def ceilings_of(known: Any) -> Ceilings:
    """A document's ceilings; older ones have no rates of single calls, so their matrix rate is that of another H200."""
    ceilings = Ceilings.model_validate(known)
    if ceilings.burst is not None:
        return ceilings
    burst = document("ceilings")["ceilings"][0]["burst"]["matrix_tflops"]
    return ceilings.model_copy(update={"burst": ceilings.model_copy(update={"matrix_tflops": burst})})


def manifest(name: str) -> ModelManifest:
    return manifest_of(name, catalogue.entry(name)[0])


def manifest_of(name: str, config: dict[str, Any]) -> ModelManifest:
    """The manifest of a decoder with this configuration, without its files."""
    architecture = {"architecture": config["architectures"][0], "model_type": config["model_type"], "kind": "decoder"}
    source = {"digest": "", "name": name, "source": "catalogue", "generated": True, "files": [], "weight_bytes": 0}
    sizes = {"config": config, "parameters": estimated_parameters(config)}
    return ModelManifest.model_validate(architecture | source | sizes)


def plan_of(case: dict[str, Any], gpu: str, runner: str, ceilings: Ceilings, users: int = 0) -> PredictedPlan:
    """What is predicted of a runner for the case of a committed row: model, weights, batch, prompt and tokens."""
    sizes = {"batch": case.get("batch", 1), "prompt_tokens": case["prompt"], "output_tokens": case["tokens"]}
    stated = {"model": case["model"], "traffic": sizes, "objectives": [{"metric": "ttf_n", "n": 64, "limit": 100}]}
    workload = Workload.model_validate(stated | ({"load": {"most_users": max(2, users)}} if users else {}))
    prediction = predict(workload, manifest(case["model"]), gpu, ceilings, "bf16", [case["weights"]])
    return next(plan for plan in prediction.plans if (plan.runner, plan.weights) == (runner, case["weights"]))


def _roofline(case: dict[str, Any], rates: Any, users: int = 0) -> dict[str, float]:
    """What the roofline alone predicts: the larger of FLOPs and bytes, every parameter for every token."""
    of, batch = manifest(case["model"]), case.get("batch", 1)
    known = request_case(of.config, of.parameters, "bf16", 1, case["prompt"], case["tokens"])
    assert known is not None
    weights, cache = known.parameters * BYTES[case["weights"]], known.bytes_per_token - 2 * known.parameters
    flops = rates.matrix_tflops.get(case["weights"]) or max(rates.matrix_tflops.values())

    def prompt(rows: int) -> float:
        return max(2 * known.parameters * rows * case["prompt"] / flops, weights / rates.read_tbps) / 1e9

    def step(rows: int) -> float:
        return max(2 * known.parameters * rows / flops, (weights + rows * cache) / rates.read_tbps) / 1e9

    request_ms = users * prompt(1) + (case["tokens"] - 1) * step(max(users, 1))
    ttft, tpot = prompt(batch), step(batch)
    return {
        "ttft": ttft,
        "tpot": tpot,
        "ttf_n": ttft + 63 * tpot,
        "throughput": 1000 * users * case["tokens"] / request_ms,
    }


def _compare(source: str, case: dict[str, Any], runner: str, known: Any, measured: dict[str, float]) -> Iterator[Error]:
    gpu = "h100" if source.startswith("h100") else "h200"
    ceilings, users = ceilings_of(known), case.get("users", 0)
    settled = "throughput" in measured
    roofline = _roofline(case, ceilings if settled else Ceilings.model_validate(known).of_single_calls, users)
    values = {
        (figure.metric, figure.users): figure.value for figure in plan_of(case, gpu, runner, ceilings, users).figures
    }
    for metric, value in measured.items():
        predicted = values[metric, users or None]
        place = (source, gpu, runner, case["weights"], case["model"], users or case.get("batch", 1), case["prompt"])
        yield Error(*place, metric, predicted, roofline[metric], value)


def _decoded() -> Iterator[Error]:
    for source in DECODED:
        decoded = document(source)
        for row in decoded["rows"]:
            runner = row["variant"].split("_fp8")[0].split("_nvfp4")[0]
            runner = "compiled" if runner.startswith("compiled") else runner
            if (
                row["ms"]
                and row["case"].get("gpus") is None
                and runner in ("compiled", "cuda_graphs", "kernels", "megakernel")
            ):
                step, case = row["ms_per_token"], row["case"]
                ttft = row["ttf64_ms"] - (case["tokens"] - 1) * step
                measured = {"ttft": ttft, "tpot": step, "ttf_n": row["ttf64_ms"]}
                yield from _compare(source, case, runner, decoded["ceilings"], measured)


def _of_runs() -> Iterator[Error]:
    for path in sorted(file for name in RUNS for file in Path(RESULTS).glob(f"{name}.json")):
        run = json.loads(path.read_text())
        if "results" not in run:
            continue
        verify, plan = run["results"]["verify"], run["results"]["verify"]["plan"]
        runner = "cuda_graphs" if plan["options"].get("compile") is False else plan["runner"]
        case = {"model": run["model"], "weights": "bf16", "prompt": 128, "tokens": 64}
        measured = {outcome["metric"]: outcome["percentiles"]["p50"] for outcome in verify["after"]}
        metrics = {name: measured[name] for name in ("ttft", "tpot", "ttf_n")}
        yield from _compare(path.stem, case, runner, run["results"]["profile"]["ceilings"], metrics)


def _turns() -> Iterator[Error]:
    """Steps of many models by the megakernel; the position stands for half of the output behind the prompt."""
    steps = document(TURNS)
    rates = {"read_tbps": steps["plain_read_tbps"], "copy_tbps": 0, "launch_us": 0, "matrix_tflops": {"bf16": 690}}
    for row in steps["rows"]:
        case = {**row, "prompt": row["position"] - 32, "tokens": 64}
        if row["commit"] == "ad0e61d" and _predictable(row["model"]):
            yield from _compare(TURNS, case, "megakernel", rates, {"tpot": row["ms"]})


def _predictable(model: str) -> bool:
    of = manifest(model)
    return request_case(of.config, of.parameters, "bf16", 1, 128, 64) is not None


def _served() -> Iterator[Error]:
    """Closed loops of equal requests; without ceilings of its own a document has those of `serve-alone`."""
    for source in SERVED:
        served = document(source)
        known = served.get("ceilings") or document("serve-alone")["ceilings"]
        for row in served["rows"]:
            users = row["case"].get("concurrency") or row.get("concurrency")
            if row["variant"] == "vllm" or not users or row["case"].get("lengths", "equal") != "equal":
                continue
            case = {"model": row["case"]["model"], "weights": "bf16", "prompt": 128, "tokens": 64, "users": users}
            runner = "megakernel" if users <= 8 and source != "serve-steps" else "kernels"
            yield from _compare(source, case, runner, known, {"throughput": row["tokens_per_second"]})


if __name__ == "__main__":
    for error in errors():
        plan = f"{error.source:28} {error.gpu} {error.runner:11} {error.weights:5} {error.model:15} {error.batch:3}"
        figures = f"{error.prompt:5} {error.metric:10} {error.predicted:9.3f} {error.measured:9.3f} {error.error:+6.0%}"
        print(f"{plan} {figures} {error.roofline_error:+6.0%}")
