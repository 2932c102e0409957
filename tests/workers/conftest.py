"""A tiny model and the documents of its stages, run for real on the CPU."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels.model_files import answer_of_config
from kernels.model_files.digests import model_digest
from kernels.ops import LinearCase
from kernels.plan import Plan
from kernels.runners import describe
from workers.documents.measurement import Candidate, Environment
from workers.documents.model import ModelFile, ModelManifest
from workers.documents.prices import default_price_book
from workers.documents.stages import ComposeResult, Results, StageInput
from workers.documents.workload import Workload
from workers.harness.context import Context

TINY = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "dtype": "float32",
}  # fmt: skip
"""One layer: Inductor takes seconds for each, and stages run it thousands of times."""
ENVIRONMENT = Environment(device="CPU", gpu_class="cpu", versions={}, at="2026-11-20T00:00:00+00:00")


def manifest(config: dict, generated: bool = True, files: tuple[ModelFile, ...] = ()) -> ModelManifest:
    facts = describe(config)
    digest = model_digest(config, [(file.path, file.sha256) for file in files], generated)
    return ModelManifest(
        digest=digest, name="tiny", source="catalogue" if generated else "upload", config=config,
        files=list(files), generated=generated, architecture=facts.architecture, model_type=facts.model_type,
        kind=facts.kind, counted=answer_of_config(config).unit, parameters=facts.parameters,
        weight_bytes=facts.weight_bytes,
    )  # fmt: skip


def stage_input(
    stage: str, model: ModelManifest | None = None, results: Results | None = None, gpu_class: str = "cpu", **sla
) -> StageInput:
    """A stage's document; `sla` replaces fields of a TTF8 promise over short requests."""
    wanted = {
        "model": "tiny",
        "traffic": {"prompt_tokens": 16, "output_tokens": 8},
        "objectives": [{"metric": "ttf_n", "n": 8, "limit": 10_000}],
        "constraints": {"gpu_classes": [gpu_class]},
    }
    model = model or manifest(TINY)
    workload = Workload.model_validate(wanted | sla)
    objectives = [objective.counting(model.counted) for objective in workload.objectives]
    return StageInput(
        run_id="r1", stage=stage, attempt=1, gpu_class=gpu_class,
        workload=workload.model_copy(update={"objectives": objectives}), model=model,
        prices=default_price_book(), results=results or Results(),
    )  # fmt: skip


def plan_of(document: StageInput, **changes) -> Plan:
    """A plan of eager in float32 for the document's model, or with these fields."""
    fields = {"model_digest": document.model.digest, "gpu": "cpu", "runner": "eager", "dtype": "fp32"}
    return Plan(**fields | changes)


def composed_with(plan: Plan, document: StageInput) -> StageInput:
    """The document behind a compose stage that took the plan and tried no other."""
    document.results.compose = ComposeResult(environment=ENVIRONMENT, trials=[], plan=plan.model_dump())
    return document


def context_of(config: dict, folder: Path, seconds: float = 60, **kwargs) -> Context:
    """A context over the folder, which gets the generated model's configuration and the artifacts."""
    (folder / "config.json").write_text(json.dumps(config))
    return Context(folder, folder, seconds=seconds, **kwargs)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A context over a generated model's directory, with half a minute for the stage."""
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    (model_dir / "config.json").write_text(json.dumps(TINY))
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    return Context(model_dir, artifacts, seconds=30)


def fixed_ceilings(patch: pytest.MonkeyPatch) -> None:
    """Ceilings far above a CPU's in place of measured ones, so that no floor lies above a time.

    Those that a busy machine measures may be too low. Measuring takes seconds, and has tests of its own.
    """
    rates = {"fp32": 100.0, "bf16": 100.0, "fp16": 100.0}
    result = {"read_tbps": 10.0, "copy_tbps": 10.0, "matrix_tflops": rates, "launch_us": 0.001}
    patch.setattr("kernels.measure.ceilings.measure_ceilings", lambda *_, **__: result)


@pytest.fixture(scope="module")
def known_ceilings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        fixed_ceilings(patch)
        yield


def leaping_clock(patch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Has the clock leap ahead by the seconds that the result is called with, which takes no time."""
    ahead_ns, clock_ns = 0, time.monotonic_ns

    def leap(seconds: float) -> None:
        nonlocal ahead_ns
        ahead_ns += round(seconds * 1e9)

    patch.setattr(time, "monotonic_ns", lambda: clock_ns() + ahead_ns)
    patch.setattr(time, "monotonic", lambda: (clock_ns() + ahead_ns) / 1e9)
    return leap


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that every user reaches, as a stage of root becomes another one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


GATE_UP = LinearCase(m=1, n=128, k=64, dtype="fp32", weights="fp32")


def candidate(variant, ms, weights="fp32", case=GATE_UP, gate="pass", width=0.01, **kwargs):
    shape = case.model_copy(update={"weights": weights}).model_dump()
    low, high = ms * (1 - width), ms * (1 + width)
    timed = {"ms": ms, "ms_low": low, "ms_high": high}
    key = f"{variant}-{weights}-{case.m}"
    return Candidate(id=key, op=case.op, case=shape, variant=variant, gate=gate, **timed, **kwargs)
