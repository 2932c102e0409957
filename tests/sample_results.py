"""A results document for tests of charts, pages and the report. Made up by a random generator: no measurement."""

import random
from typing import Any

from tests.sample_quality import QUALITY
from workers.documents.base import Artifact
from workers.documents.gpu_class import Feasibility
from workers.documents.measurement import Candidate, Ceilings, Distribution, Environment, Interval, Rates, Telemetry
from workers.documents.model import ModelManifest
from workers.documents.prediction import PredictedFigure, PredictedPlan, Prediction
from workers.documents.prices import default_price_book
from workers.documents.profile import Bottleneck, OpRow, PlanProfile, ProfileResult
from workers.documents.speedup import Drift, ProcessMedians, Speedup
from workers.documents.stages import (
    AdmitResult,
    BaselineResult,
    ComposeResult,
    ExploreResult,
    ObjectiveOutcome,
    PlanTrial,
    Results,
    StageInput,
    VerifyResult,
)
from workers.documents.workload import Deployment, Objective, Workload
from workers.stages.price import price
from workers.stats.intervals import distribution

ENVIRONMENT = Environment(
    device="Test device", gpu_class="h200", gpu_uuid="GPU-test", driver="0.0", memory_gib=140,
    versions={"python": "3.12.0", "torch": "2.11.0", "transformers": "5.17.0"}, commit="0000000",
    at="2026-01-01T00:00:00Z",
    telemetry=Telemetry(sm_mhz_median=1980, sm_mhz_min=1965, sm_mhz_max=1980, power_w_median=350),
)  # fmt: skip
BURST = Rates(read_tbps=4.1, copy_tbps=4.0, matrix_tflops={"bf16": 700, "fp32": 52})
CEILINGS = Ceilings(read_tbps=4.0, copy_tbps=3.9, matrix_tflops={"bf16": 600, "fp32": 50}, launch_us=2.0, burst=BURST)
_FIGURES = [
    PredictedFigure(metric="ttf_n", n=64, value=60),
    PredictedFigure(metric="tpot", value=0.9),
    PredictedFigure(metric="throughput", users=2, unit="tokens/s", value=1500),
]
_FP8 = PredictedPlan(runner="compiled", weights="fp8", figures=[PredictedFigure(metric="tpot", value=0.5)])
PREDICTED = Prediction(
    plans=[PredictedPlan(runner="compiled", weights="bf16", figures=_FIGURES), _FP8],
    assumptions=["Launches and the host take no time."],
)
TTF = Objective(metric="ttf_n", n=64, percentile=50, limit=100)
TPOT = Objective(metric="tpot", percentile=95, limit=2)


def workload() -> Workload:
    return Workload(
        name="Voice agent, test data",
        model="llama-3.2-1b",
        objectives=[TTF, TPOT],
        present=Deployment(metric="ttf_n", n=64, latency_ms=281, gpu="B200", usd_per_hour=6.2),
    )


def _samples(centre: float, spread: float, count: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [centre * (1 + spread * abs(generator.gauss(0, 1))) for _ in range(count)]


def _side(ttf: float, tpot: float, seed: int) -> list[Distribution]:
    return [
        distribution(_samples(ttf, 0.02, 60, seed), "ttf_n", 64),
        distribution(_samples(tpot, 0.03, 60, seed + 1), "tpot"),
        distribution(_samples(ttf * 1.01, 0.02, 60, seed + 2), "e2e"),
    ]


def _row(op: str, phase: str, ms: float, flops: float, data: float, bound: Any) -> OpRow:
    floor = max(flops / 600e12, data / 4e12) * 1000
    return OpRow(
        op=op, phase=phase, kernel=f"test_kernel_{op}", ms=ms, share=ms / 600, calls=64, shapes="[1, 2048]",
        flops=flops, least_bytes=data, floor_ms=floor, headroom_ms=ms - floor, bound=bound,
    )  # fmt: skip


def profile() -> ProfileResult:
    rows = [
        _row("linear gate_up", "decode", 150, 1.0e11, 5e10, "launch"),
        _row("linear down", "decode", 90, 5e10, 2.5e10, "memory"),
        _row("attention", "decode", 80, 2e9, 2e9, "launch"),
        _row("lm_head", "decode", 70, 3.3e10, 3.3e10, "memory"),
        _row("rmsnorm", "decode", 60, 1e8, 4e8, "launch"),
        _row("linear gate_up", "prefill", 20, 2.5e12, 1e9, "compute"),
        _row("attention", "prefill", 10, 4e11, 1e8, "compute"),
    ]
    sentence = "The gated MLP's up projection takes 150 ms (25 %): 64 launches wait for the host; a CUDA graph helps."
    return ProfileResult(
        environment=ENVIRONMENT, ceilings=CEILINGS, request_ms=600, device_ms=480, attributed_share=0.97,
        launches=21_000, rows=rows,
        bottlenecks=[
            Bottleneck(rank=1, op="linear gate_up", ms=150, share=0.25, bound="launch", sentence=sentence),
            Bottleneck(
                rank=2, op="idle", ms=120, share=0.2, bound="idle", sentence="The device waits 120 ms for the host."
            ),
        ],
        trace=Artifact(name="trace.json.gz", sha256="0" * 64, size=1234, media_type="application/gzip"),
    )  # fmt: skip


def _candidate(number: int, variant: str, ms: float | None, gate: str, reason: str, **kwargs: Any) -> Candidate:
    case = {"op": "linear", "m": 1, "n": 8192 * (1 + number % 2), "k": 2048, "dtype": "bf16", "weights": "bf16"}
    return Candidate(
        id=f"c{number}", op="linear", case=case, variant=variant, gate=gate, ms=ms, reason=reason, error=1e-3, **kwargs
    )


def explore() -> ExploreResult:
    return ExploreResult(
        environment=ENVIRONMENT,
        ceilings=CEILINGS,
        candidates=[
            _candidate(0, "torch_linear", 0.0131, "pass", "Slower than cublaslt by 12 %.", peer=True, floor_share=0.7),
            _candidate(
                2, "cublaslt", 0.0117, "pass", "Fastest that passes.", chosen=True, floor_share=0.78, summary="cuBLASLt"
            ),
            _candidate(1, "torch_linear", 0.0231, "pass", "Fastest that passes.", chosen=True, floor_share=0.71),
            _candidate(3, "int8_dynamic", 0.0102, "fail", "Error 0.4 is above the limit 0.02.", error_limit=0.02),
            _candidate(5, "cached_output", 0.0001, "impossible", "Faster than the memory could deliver the weights."),
            _candidate(7, "fp8_linear", None, "refused", "weights: fp8 is not among the allowed precisions."),
        ],
    )


def compose() -> ComposeResult:
    plan = {"version": 2, "model_digest": "d" * 64, "gpu": "h200", "runner": "compiled", "ops": []}
    op = {"op": "linear", "case": explore().candidates[1].case, "variant": "cublaslt", "evidence_id": "c2"}
    trials = [
        PlanTrial(
            label="eager", plan=plan, primary=Interval(value=280, low=278, high=284), tokens_per_second=228,
            gate="pass", reason="3.5 times slower than the compiled plan.",
        ),
        PlanTrial(
            label="compiled, CUDA graphs",
            summary="Static cache, Inductor, CUDA graphs on a GPU; products by cublaslt.",
            plan={**plan, "ops": [op]}, primary=Interval(value=81, low=80.5, high=81.9), tokens_per_second=790,
            gate="pass", chosen=True, reason="Fastest that passes.", build_seconds=41,
        ),
        PlanTrial(label="int8", plan=plan, gate="fail", reason="Not allowed: quality cannot be measured."),
    ]  # fmt: skip
    return ComposeResult(environment=ENVIRONMENT, trials=trials, plan=trials[1].plan)


def verify(after_ms: float = 81.0) -> VerifyResult:
    met = after_ms <= (TTF.limit or 0)
    before, after = _side(281, 4.4, 1), _side(after_ms, after_ms / 64, 7)
    return VerifyResult(
        environment=ENVIRONMENT,
        profile=PlanProfile(
            request_ms=77, device_ms=70, launches=64, attributed_share=0.98, floor_ms=41,
            rows=[_row("linear gate_up", "decode", 40, 5e10, 2.5e10, "memory")],
            sentence="A request of the plan takes 77 ms, 70 ms of it in 64 launches on the device.",
        ),
        plan=compose().plan, before=before, after=after, tokens_per_second_before=227,
        tokens_per_second_after=64_000 / after_ms,
        speedup=Speedup(
            metric="TTF64 p50", ratio=Interval(value=281 / after_ms, low=280 / after_ms, high=283 / after_ms),
            noise=Interval(value=1.005, low=0.995, high=1.005), difference=True,
            processes=[
                ProcessMedians(before=281 * by, after=after_ms, ratio=281 * by / after_ms, pairs=10)
                for by in (1.0, 0.997, 1.007)
            ],
            drifts=[Drift(process=2, side="before", ratio=1.04)],
        ),
        outcomes=[
            ObjectiveOutcome(
                objective=TTF, before=before[0].percentiles["p50"], after=after[0].percentiles["p50"],
                verdict_before="missed", verdict="met" if met else "missed", samples=60, requests=60,
                over=0 if met else 60, needed=7,
            ),
            ObjectiveOutcome(
                objective=TPOT, before=before[1].percentiles["p95"], after=after[1].percentiles["p95"],
                verdict_before="missed", verdict="not_enough_samples", samples=60, requests=60, over=0,
                needed=90,
            ),
        ],
        quality=QUALITY, verdict="met" if met else "missed",
        sentence=f"TTF64 p50 is {after_ms:.1f} ms against a limit of 100 ms: {'met' if met else 'missed'}.",
    )  # fmt: skip


def results(after_ms: float = 81.0) -> Results:
    """Every stage but the report."""
    admit = AdmitResult(
        kind="decoder", family="llama", architecture="LlamaForCausalLM", parameters=1_235_814_400,
        weight_bytes=2_471_628_800, kv_bytes_per_token=32_768, dtype="bf16",
        classes=[Feasibility(gpu_class="h200", needs_gib=3.1, has_gib=131, feasible=True)], predicted=PREDICTED,
        notes=["Weights are generated from seed 0."],
    )  # fmt: skip
    baseline = BaselineResult(
        environment=ENVIRONMENT, runner="eager", dtype="bf16", requests=60, distributions=_side(281, 4.4, 1),
        tokens_per_second=227,
    )  # fmt: skip
    verified = verify(after_ms)
    return Results(
        admit=admit, baseline=baseline, profile=profile(), explore=explore(), compose=compose(),
        verify=verified, price=price(workload(), default_price_book(), "h200", verified, manifest()),
    )  # fmt: skip


def of_baseline(seconds: float, gpu_class: str) -> Results:
    """Baseline alone, on that class, whose requests take so many seconds."""
    baseline = results().baseline
    assert baseline is not None
    waits = Distribution(metric="e2e", unit="ms", samples=[1000 * seconds], percentiles={"p50": 1000 * seconds})
    environment = ENVIRONMENT.model_copy(update={"gpu_class": gpu_class})
    return Results(baseline=baseline.model_copy(update={"environment": environment, "distributions": [waits]}))


def manifest() -> ModelManifest:
    return ModelManifest(
        digest="d" * 64, name="llama-3.2-1b", source="catalogue", config={"model_type": "llama"}, files=[],
        generated=True, architecture="LlamaForCausalLM", model_type="llama", kind="decoder",
        parameters=1_235_814_400, weight_bytes=2_471_628_800,
    )  # fmt: skip


def stage_input(stage: Any = "report") -> StageInput:
    return StageInput(
        run_id="00000000-0000-4000-8000-000000000001", stage=stage, attempt=1, gpu_class="h200",
        workload=workload(), model=manifest(), prices=default_price_book(), results=results(),
    )  # fmt: skip
